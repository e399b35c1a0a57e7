"""Mirror of a source: its documents as files of ours, and the decision what is written and deleted.

    <home>/sources/<name>/source.json     the source as an operator described it
                          state.json      its documents and how the last run ended
                          files/<name>/…  its documents, for the index to read; `.addresses.json` beside them
                          cache/, lock    the connector's own; held by whoever reads the source

Every file is replaced as a whole. A document stays until its source reports it as deleted: an interrupted run deletes
nothing unseen, and a suddenly empty list is not believed.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from index.loaders.addresses import write_addresses
from plugins.sources.source import Item, Known, Source, SourceError
from text.files import replacing, write_text

Outcome: TypeAlias = Literal["new", "changed", "unchanged", "failed", "deleted"]

MAX_CHANGES = 500
"""So many changes of a run are remembered."""
_JITTER = 0.1
_SAVE_SECONDS = 10.0
_PART_BYTES = 120
_UNSAFE_CHARS = re.compile(r"[^\w .,()+@=-]")


class Kept(BaseModel, frozen=True):
    """A document of a source. `path` is its file below `files`, empty if it was never read; times are seconds."""

    path: str = ""
    version: str = ""
    url: str = ""
    title: str = ""
    problem: str = ""
    changed: float = 0.0


class Change(BaseModel, frozen=True):
    """Change found for one document."""

    key: str
    outcome: Outcome
    message: str = ""


class SyncReport(BaseModel, frozen=True):
    """A run: its changes (at most `MAX_CHANGES`), how many of each outcome, and why it ended early."""

    began: float
    changes: tuple[Change, ...] = ()
    counts: dict[Outcome, int] = {}
    problem: str = ""


class MirrorState(BaseModel, frozen=True):
    """Sync state of a source; `due` is when it is to be read again, 0 for never."""

    documents: dict[str, Kept] = {}
    last: SyncReport | None = None
    due: float = 0.0


class SourceMirror:
    """The mirror of one source. Reading it needs no lock; `hold` it to change it."""

    def __init__(self, root: Path, name: str) -> None:
        self.folder = root / name
        self.files = self.folder / "files"
        self.cache = self.folder / "cache"
        self._state = self.folder / "state.json"

    @property
    def source(self) -> Source:
        """The source as it was described. Raises SourceError."""
        try:
            return Source.model_validate_json((self.folder / "source.json").read_text("utf-8"))
        except (OSError, ValidationError) as error:
            raise SourceError(
                f"the source {self.folder.name} cannot be read ({error}): delete {self.folder}"
            ) from error

    def write(self, source: Source) -> None:
        """Describe the source, in place of what was there."""
        write_text(self.folder / "source.json", source.model_dump_json(indent=2, exclude_defaults=True) + "\n")

    @property
    def state(self) -> MirrorState:
        """Saved sync state. An unreadable file counts as empty and triggers a full sync."""
        try:
            return MirrorState.model_validate_json(self._state.read_text("utf-8"))
        except (OSError, ValidationError):
            return MirrorState()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep others from changing it. Raises SourceError at once if somebody does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / "lock", timeout=0):
                yield
        except Timeout:
            raise SourceError(f"the source {self.folder.name} is being read by another process: wait for it") from None

    def remove(self) -> None:
        """Delete it from the disk. Raises SourceError if somebody reads the source."""
        with self.hold():
            shutil.rmtree(self.folder)

    def known(self) -> dict[str, Known]:
        """Return the mirrored documents by key, for the connector."""
        documents = ((key, stored.version, self.files / stored.path) for key, stored in self.state.documents.items())
        return {key: Known(version, path) for key, version, path in documents if path.is_file()}

    def sync(
        self,
        items: Iterable[Item],
        *,
        complete: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> SyncReport:
        """Bring the files up to date with what a source reports, or with `dry_run` only report the changes.

        The caller holds the lock. If the list is to be `complete`, documents that it does not name are deleted. A
        source that cannot be read (on) is a `problem` of the report. Passes on what else `items` raises, and raises
        OSError if nothing can be written; what was read until then is kept.
        """
        began, saved, problem, every = time.time(), time.monotonic(), "it was stopped", self.source.seconds
        run = _MirrorRun(self, dry_run)
        try:
            for item in items:
                run.take(item)
                progress(len(run.met), len(run.documents))
                if time.monotonic() - saved > _SAVE_SECONDS and not dry_run:
                    self._save(self.state.model_copy(update={"documents": run.documents}))
                    saved = time.monotonic()
            if complete:
                run.delete_unlisted()
            problem = ""
        except SourceError as error:
            problem = str(error)
        finally:
            report = SyncReport(
                began=began, changes=tuple(run.changes[:MAX_CHANGES]), counts=dict(run.counts), problem=problem
            )
            if not dry_run:
                # What was never read and is not named any more is no document.
                documents = {key: stored for key, stored in run.documents.items() if stored.path or key in run.met}
                # Sources that were added together need not be asked together for ever.
                due = time.time() + every * (1 + random.uniform(0, _JITTER)) if every else 0.0
                self._save(MirrorState(documents=documents, last=report, due=due))
        return report

    def _save(self, state: MirrorState) -> None:
        write_addresses(
            self.files,
            {
                stored.path: {
                    "url": stored.url,
                    "title": stored.title,
                    "changed": time.strftime("%F", time.gmtime(stored.changed)),
                    "field.from": self.folder.name,
                }
                for stored in state.documents.values()
                if stored.path
            },
        )
        write_text(self._state, state.model_dump_json(exclude_defaults=True))


class _MirrorRun:
    """One run: takes the items of a source, and keeps count."""

    def __init__(self, mirror: SourceMirror, dry_run: bool) -> None:
        self.documents = dict(mirror.state.documents)
        self.met: set[str] = set()
        self.changes: list[Change] = []
        self.counts: Counter[Outcome] = Counter()
        self._names = {stored.path.casefold() for stored in self.documents.values()}
        self._mirror = mirror
        self._dry_run = dry_run

    def take(self, item: Item) -> None:
        """Write or delete one document, or note its problem."""
        key, before = item.key, self.documents.get(item.key)
        self.met.add(key)
        if item.gone:
            self._delete(key)
        elif item.problem:
            self._fail(key, item.problem)
        elif item.content is not None:
            self._write(item, item.content, before.path if before else "")
        elif before:
            self.documents[key] = before.model_copy(update={"version": item.version, "url": item.url, "problem": ""})
            self._note(key, "unchanged")

    def delete_unlisted(self) -> None:
        """Delete what a complete list did not name. Raises SourceError for a list that is empty all at once."""
        missing = [key for key in self.documents if key not in self.met]
        if missing and not self.met:
            raise SourceError(
                f"it holds nothing any more, and had {len(missing)} documents: nothing was deleted. Check that it is "
                "mounted and its address right; if it is meant to be empty, remove the source"
            )
        for key in missing:
            self._delete(key)

    def _write(self, item: Item, content: bytes, before: str) -> None:
        path = before
        if not path.endswith(item.suffix) or not path:
            path = mirror_path(self._mirror.folder.name, item.key, item.suffix, self._names)
            self._names.add(path.casefold())
        try:
            if not self._dry_run:
                with replacing(self._mirror.files / path) as draft:
                    draft.write_bytes(content)
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            self._fail(item.key, "its name is also that of a folder")
            return
        if before != path:
            self._unlink(before)
        self.documents[item.key] = Kept(
            path=path, version=item.version, url=item.url, title=item.title, changed=time.time()
        )
        self._note(item.key, "changed" if before else "new")

    def _delete(self, key: str) -> None:
        if before := self.documents.pop(key, None):
            self._unlink(before.path)
            self._note(key, "deleted", "the source has it no more")

    def _unlink(self, path: str) -> None:
        if path and not self._dry_run:
            (self._mirror.files / path).unlink(missing_ok=True)

    def _fail(self, key: str, problem: str) -> None:
        before = self.documents.get(key) or Kept()
        self.documents[key] = before.model_copy(update={"problem": problem})
        self._note(key, "failed", problem + ("; what was read of it before stays" if before.path else ""))

    def _note(self, key: str, outcome: Outcome, message: str = "") -> None:
        self.counts[outcome] += 1
        if outcome != "unchanged":
            self.changes.append(Change(key=key, outcome=outcome, message=message))


def mirrors(home: Path, collection: str = "") -> list[SourceMirror]:
    """Return the mirrors of one collection, or of all, by name; without those whose description is damaged."""
    readable = []
    for path in sorted((home / "sources").glob("*/source.json")):
        mirror = SourceMirror(home / "sources", path.parent.name)
        with suppress(SourceError):
            if collection in ("", mirror.source.collection):
                readable.append(mirror)
    return readable


def document_folders(home: Path, collection: str) -> list[Path]:
    """Return the folders that hold mirrored documents of a collection."""
    return [mirror.files for mirror in mirrors(home, collection)]


def delete_mirrors(home: Path, collection: str) -> None:
    """Delete the sources of a collection. Raises SourceError if one is being read."""
    for mirror in mirrors(home, collection):
        mirror.remove()


def mirror_path(name: str, key: str, suffix: str, names: Collection[str]) -> str:
    """Return the file for a document below `files`: readable, within it, visible, and none of `names` (case-folded)."""
    path = key.partition("://")[2].partition("/")[2] if "://" in key else key
    ending = suffix or PurePosixPath(path).suffix[:10]
    stem = path.removesuffix(ending)
    parts = [_UNSAFE_CHARS.sub("_", part).strip(". ").encode()[:_PART_BYTES] for part in stem.split("/")]
    named = [name, *(part.decode(errors="ignore") for part in parts if part)]
    plain = "/".join(named if named[1:] else (name, "index"))
    mark = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:12]
    ending = _UNSAFE_CHARS.sub("_", ending)
    return f"{plain}-{mark}{ending}" if f"{plain}{ending}".casefold() in names else f"{plain}{ending}"
