"""A source's documents as files of ours, and what is known of each: the part that decides what is written and deleted.

    <folder>/source.json          the source as an operator described it
    <folder>/state.json           its documents and how the last run ended
    <folder>/files/<name>/…       its documents, for the index to read; `.addresses.json` beside them
    <folder>/cache/               the connector's own
    <folder>/lock                 held by whoever reads the source

Every file is replaced as a whole. What a source did not say to be deleted stays: a run that stops in the middle
deletes nothing that it has not seen, and a list that is empty all at once is not believed.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from index.errors import SourceError
from index.loaders.addresses import write_addresses
from index.sources.protocol import Connector, Item, Known, Pause
from index.sources.source import Source
from text.files import replacing, write_text

Outcome: TypeAlias = Literal["new", "changed", "unchanged", "failed", "deleted"]
SHOWN = 500
"""So many changes of a run are remembered."""
_JITTER = 0.1
_SAVE_SECONDS = 10.0
_PART_BYTES = 120
_UNSAFE_CHARS = re.compile(r"[^\w .,()+@=-]")


class Kept(BaseModel):
    """A document of a source. `path` is its file below `files`, empty where it was never read; times are seconds."""

    model_config = ConfigDict(frozen=True)

    path: str = ""
    version: str = ""
    url: str = ""
    title: str = ""
    problem: str = ""
    changed: float = 0.0


class Change(BaseModel):
    """What a run found of one document."""

    model_config = ConfigDict(frozen=True)

    key: str
    outcome: Outcome
    message: str = ""


class SyncReport(BaseModel):
    """How a run ended: what changed (at most `SHOWN` of it), how many of each outcome, and why it ended early."""

    model_config = ConfigDict(frozen=True)

    began: float
    seconds: float
    changes: tuple[Change, ...] = ()
    counts: dict[Outcome, int] = {}
    problem: str = ""


class MirrorState(BaseModel):
    """What is known of a source; `due` is when it is to be looked at again, 0 for never."""

    documents: dict[str, Kept] = {}
    last: SyncReport | None = None
    due: float = 0.0


class Mirror:
    """The mirror of one source. Reading it needs no lock; `hold` it to change it."""

    def __init__(self, root: Path, name: str) -> None:
        self.folder = root / name
        self.files = self.folder / "files"
        self.cache = self.folder / "cache"
        self._state = self.folder / "state.json"

    @property
    def source(self) -> Source:
        """As it was described. Raises SourceError."""
        try:
            return Source.model_validate_json((self.folder / "source.json").read_text("utf-8"))
        except FileNotFoundError as error:
            raise SourceError(f"there is no source {self.folder.name!r}") from error
        except (OSError, ValidationError) as error:
            raise SourceError(f"{self.folder / 'source.json'} cannot be read ({error}): remove the source") from error

    def write(self, source: Source) -> None:
        """Describe the source, in place of what was there."""
        write_text(self.folder / "source.json", source.model_dump_json(indent=2, exclude_defaults=True) + "\n")

    @property
    def state(self) -> MirrorState:
        """What is known; a file that cannot be read is as none: everything is read again then."""
        try:
            return MirrorState.model_validate_json(self._state.read_text("utf-8"))
        except (OSError, ValidationError):
            return MirrorState()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep others from changing it. Raises SourceError at once where somebody does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / "lock", timeout=0):
                yield
        except Timeout:
            raise SourceError(f"the source {self.folder.name} is being read by another process: wait for it") from None

    def remove(self) -> None:
        """Delete it from the disk."""
        with self.hold():
            shutil.rmtree(self.folder)

    def sync(
        self,
        connector: Connector,
        *,
        dry_run: bool = False,
        pause: Pause = time.sleep,
        progress: Callable[[int, int], None] = lambda done, known: None,
    ) -> SyncReport:
        """Bring the files up to date, or only say what that would do. Whoever calls this holds it.

        A source that cannot be read (on) is a `problem` of the report. Raises what `pause` raises, and OSError where
        nothing can be written; what was read until then is kept.
        """
        run = _Run(self, self.state, dry_run)
        try:
            for item in connector.items(run.known(), pause):
                run.take(item)
                progress(run.done, len(run.state.documents))
            if connector.lists_all:
                run.delete_unlisted()
        except SourceError as error:
            run.problem = str(error)
        finally:
            run.end(self.source.seconds)
        assert run.report is not None
        return run.report

    def put(self, item: Item) -> SyncReport:
        """One document in place of what was there under its key, or `gone`. Whoever calls this holds it."""
        run = _Run(self, self.state, dry_run=False)
        run.take(item)
        run.end(0)
        assert run.report is not None
        return run.report

    def save(self, state: MirrorState) -> None:
        """Write the addresses first: a file without its address would be indexed without it."""
        about = {
            one.path: {"url": one.url, "title": one.title, "changed": time.strftime("%F", time.gmtime(one.changed))}
            for one in state.documents.values()
            if one.path
        }
        write_addresses(self.files, about)
        write_text(self._state, state.model_dump_json(exclude_defaults=True))


class _Run:
    """One run: takes what the source says, and keeps count."""

    def __init__(self, mirror: Mirror, state: MirrorState, dry_run: bool) -> None:
        self.state = state
        self.problem = ""
        self.report: SyncReport | None = None
        self.done = 0
        self._mirror = mirror
        self._dry_run = dry_run
        self._began = self._saved = time.time()
        self._met: set[str] = set()
        self._taken = {one.path.casefold() for one in state.documents.values()}
        self._changes: list[Change] = []
        self._counts: dict[Outcome, int] = {}

    def known(self) -> dict[str, Known]:
        """What is kept, as far as its file is there."""
        files = self._mirror.files
        kept = {key: Known(one.version, files / one.path) for key, one in self.state.documents.items() if one.path}
        return {key: one for key, one in kept.items() if one.path.is_file()}

    def take(self, item: Item) -> None:
        """One document: write it, delete it, or note its problem."""
        key, before = item.key, self.state.documents.get(item.key)
        self._met.add(key)
        self.done += 1
        if item.gone:
            if before:
                self._delete(key, "the source has it no more")
        elif item.problem:
            self._fail(key, item.problem)
        elif item.content is None:
            if before:
                fresh = {"version": item.version, "url": item.url, "problem": ""}
                self.state.documents[key] = before.model_copy(update=fresh)
                self._note(key, "unchanged")
        else:
            try:
                path = before.path if before else ""
                if not path or not path.endswith(item.suffix):
                    path = mirror_path(self._mirror.folder.name, key, item.suffix, self._taken)
                    self._taken.add(path.casefold())
                if not self._dry_run:
                    with replacing(self._mirror.files / path) as draft:
                        draft.write_bytes(item.content)
            except (NotADirectoryError, IsADirectoryError, FileExistsError):
                self._fail(key, "its name is also that of a folder")
                return
            self.state.documents[key] = Kept(
                path=path, version=item.version, url=item.url, title=item.title, changed=time.time()
            )
            self._note(key, "changed" if before and before.path else "new")
        if time.time() - self._saved > _SAVE_SECONDS and not self._dry_run:
            self._mirror.save(self.state)
            self._saved = time.time()

    def delete_unlisted(self) -> None:
        """The source has named everything: what it did not name is deleted, unless it has named nothing at all."""
        missing = [key for key in self.state.documents if key not in self._met]
        if missing and not self._met:
            raise SourceError(
                f"it holds nothing any more, and had {len(missing)} documents: nothing was deleted. Check that it is "
                "mounted and its address right; if it is meant to be empty, remove the source"
            )
        for key in missing:
            self._delete(key, "the source has it no more")

    def end(self, every: int) -> None:
        """Write what is known now, and remove files that belong to no document."""
        changes = tuple(self._changes[:SHOWN])
        self.report = SyncReport(
            began=self._began,
            seconds=time.time() - self._began,
            changes=changes,
            counts=self._counts,
            problem=self.problem,
        )
        if self._dry_run:
            return
        self.state.last = self.report
        # Sources that were added together need not be asked together for ever.
        self.state.due = time.time() + every * (1 + random.uniform(0, _JITTER)) if every else 0.0
        # What was never read and is not named any more is no document.
        for key in [key for key, one in self.state.documents.items() if not one.path and key not in self._met]:
            del self.state.documents[key]
        wanted = {one.path for one in self.state.documents.values()}
        for place, _, names in os.walk(self._mirror.files, topdown=False):
            for name in names:
                path = Path(place, name)
                if path.relative_to(self._mirror.files).as_posix() not in wanted and not name.startswith("."):
                    path.unlink()
        self._mirror.save(self.state)

    def _delete(self, key: str, message: str) -> None:
        del self.state.documents[key]
        self._note(key, "deleted", message)

    def _fail(self, key: str, problem: str) -> None:
        before = self.state.documents.get(key) or Kept()
        self.state.documents[key] = before.model_copy(update={"problem": problem})
        self._note(key, "failed", problem + ("; what was read of it before stays" if before.path else ""))

    def _note(self, key: str, outcome: Outcome, message: str = "") -> None:
        self._counts[outcome] = self._counts.get(outcome, 0) + 1
        if outcome != "unchanged":
            self._changes.append(Change(key=key, outcome=outcome, message=message))


def mirrors(root: Path, collection: str) -> list[Mirror]:
    """The mirrors whose documents a collection holds; those whose description is damaged are none."""
    found = []
    for path in sorted(root.glob("*/source.json")):
        mirror = Mirror(root, path.parent.name)
        with suppress(SourceError):
            if mirror.source.collection == collection:
                found.append(mirror)
    return found


def mirror_path(name: str, key: str, suffix: str, taken: Collection[str]) -> str:
    """The file for a document, below `files`: readable, within it, visible, and none of `taken` (case-folded)."""
    path = key.partition("://")[2].partition("/")[2] if "://" in key else key
    parts = [_short(_UNSAFE_CHARS.sub("_", part).strip(". ")) for part in path.split("/")]
    parts = [part for part in parts if part] or ["index"]
    ending = suffix or PurePosixPath(parts[-1]).suffix
    stem = "/".join((name, *parts)).removesuffix(ending)
    mark = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{stem}-{mark}{ending}" if f"{stem}{ending}".casefold() in taken else f"{stem}{ending}"


def _short(part: str) -> str:
    cut = part.encode()[:_PART_BYTES].decode(errors="ignore")
    return part if cut == part else cut + PurePosixPath(part).suffix[:10]
