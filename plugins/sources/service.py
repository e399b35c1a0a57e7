"""Follow sources: read them on request and when they are due, accept pushes, remove them.

A run is a job on the source's collection: the mirror of the source is brought up to date, then indexed as any folder
is. Who may decide about the server's machine adds and removes sources; operators of the collection sync them and push.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from plugins.sources.mirror import Change, Kept, SourceMirror, SyncReport, mirrors
from plugins.sources.source import KINDS, Connector, Guard, Item, Source, SourceError, SourcesSettings
from server.access import Ownership
from server.chat.base import ChatError, Conflict, InvalidRequest, NotFound, TooLarge, clean, requires
from server.chat.collections import CollectionService, making_a_job
from server.jobs import JobProgress
from server.store import collection_rows
from server.store.records import FileResult, Job
from text.files import is_name
from text.modules import need_extra

if TYPE_CHECKING:
    from server.chat import ChatService

log = logging.getLogger(__name__)

MAX_KEY_CHARS = 500
TICK = 5.0
"""Seconds between two looks at what is due."""
_SUFFIXES = {"markdown": ".md", "html": ".html", "text": ".txt"}


class SourceSummary(BaseModel):
    """A source and its state; `busy` is the job that works on its collection."""

    source: Source
    documents: int
    failed: int
    due: float = Field(description="When it is read again, in seconds since the epoch; 0 for never.")
    last: SyncReport | None
    busy: str | None
    items: dict[str, Kept] = Field({}, description="Its documents, by what the source calls them; not in a list.")


class PushedDocument(BaseModel):
    """A document that a program brings, in place of the one it brought before."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1)
    title: str = Field("", max_length=300)
    url: str = Field("", max_length=2000, description="Where people open it; citations lead there.")
    format: Literal["markdown", "html", "text"] = "markdown"


class SourceService(CollectionService):
    """Sources of the collections that `principal` reaches."""

    @requires("documents")
    async def sources(self) -> list[SourceSummary]:
        """Return every source whose collection is reached, by name, without their documents."""
        summaries = []
        for mirror in await asyncio.to_thread(mirrors, self.core.settings.home):
            try:
                summaries.append((await self.source(mirror.folder.name)).model_copy(update={"items": {}}))
            except NotFound:
                continue
        return summaries

    @requires("documents")
    async def source(self, name: str) -> SourceSummary:
        """Return one source with its documents. Raises NotFound, or Conflict if its file is damaged."""
        mirror, source, _ = await self._mirror(name)
        state = await asyncio.to_thread(lambda: mirror.state)
        return SourceSummary(
            source=source,
            documents=sum(bool(document.path) for document in state.documents.values()),
            failed=sum(bool(document.problem) for document in state.documents.values()),
            due=state.due,
            last=state.last,
            busy=await self._busy(source.collection),
            items=state.documents,
        )

    @requires("server")
    async def add(self, source: Source) -> SourceSummary:
        """Follow a source; it is read for the first time at once. Raises Conflict for a name that is taken."""
        mirror = SourceMirror(self.core.settings.home / "sources", source.name)
        if mirror.folder.exists():
            raise Conflict(f"There is a source {source.name} already. Remove it first.", code="source_exists")
        if source.watch:
            need_extra("sources", "Watching a folder", "watchfiles", error=InvalidRequest)
        ownership = await self._made(source.collection, "")
        await self._account("source.add", source, ownership, kind=source.kind, location=source.location)
        await asyncio.to_thread(mirror.write, source)
        if source.kind != "push":
            await self.sync(source.name)
        return await self.source(source.name)

    @requires("documents")
    @making_a_job
    async def sync(self, name: str, *, dry_run: bool = False, if_due: bool = False) -> Job:
        """Read a source now. With `dry_run` the job only reports the changes; with `if_due` it does nothing if another
        server has read the source meanwhile. Raises NotFound."""
        _, source, ownership = await self._mirror(name)
        await self._account("source.sync", source, ownership)
        how = {"source": name, "dry_run": dry_run, "if_due": if_due}
        return await self._submit("sync", source.collection, ownership, self._work_sync, **how)

    def _work_sync(
        self, progress: JobProgress, collection: str, source: str, dry_run: bool, if_due: bool
    ) -> list[FileResult]:
        mirror, settings = SourceMirror(self.core.settings.home / "sources", source), self.core.settings
        followed, results = mirror.source, list[FileResult]()
        if followed.kind != "push" and not (if_due and time.time() < mirror.state.due):
            with mirror.hold():
                hosts, max_bytes = settings.of(SourcesSettings).private_hosts, settings.index.max_file_mb << 20
                connector = open_connector(followed, mirror.cache, private_hosts=hosts, max_bytes=max_bytes)
                try:
                    report = mirror.sync(
                        connector.items(mirror.known(), progress.pause),
                        complete=connector.lists_all,
                        dry_run=dry_run,
                        progress=lambda done, total: progress.report("crawl", done, max(done, total)),
                    )
                finally:
                    connector.close()
            results = _results(followed, report, dry_run)
        return results if dry_run else [*results, *self._work_pushed(progress, collection, source)]

    def _work_pushed(self, progress: JobProgress, collection: str, source: str) -> list[FileResult]:
        """Index a source's mirror; the result names what changed."""
        mirror = SourceMirror(self.core.settings.home / "sources", source)
        indexed = self._index_root(progress, collection, mirror.files)
        return [result for result in indexed if result.status != "unchanged"]

    @requires("server")
    @making_a_job
    async def remove(self, name: str) -> Job:
        """Remove a source and its documents. Raises NotFound."""
        _, source, ownership = await self._mirror(name)
        await self._account("source.remove", source, ownership)
        return await self._submit("sync", source.collection, ownership, self._work_remove, source=name)

    def _work_remove(self, progress: JobProgress, collection: str, source: str) -> list[FileResult]:
        mirror = SourceMirror(self.core.settings.home / "sources", source)
        root, deleted = mirror.files.resolve(), list[FileResult]()
        if self.core.opened.exists(collection):
            deleted = self._delete(progress, collection, lambda info: Path(info.path).is_relative_to(root))
        mirror.remove()
        self.core.database.write_blocking(collection_rows.forget_pushed, collection, source)
        return deleted

    @requires("documents")
    @making_a_job
    async def push(self, name: str, key: str, document: PushedDocument | None) -> Job:
        """Store a document under its key, or with None delete it, and index that in the background.

        Raises NotFound, InvalidRequest for a source of another kind, TooLarge, Conflict if somebody reads the source.
        """
        mirror, source, ownership = await self._mirror(name)
        key = clean(key, MAX_KEY_CHARS, "key").strip()
        if source.kind != "push" or not key:
            raise InvalidRequest(f"{name} is of kind {source.kind}: documents are pushed to a source of kind push.")
        item, label = Item(key, gone=True), f"{name}/{key}"
        if document is not None:
            content = document.text.encode("utf-8", "replace")
            if len(content) > self.core.settings.index.max_file_mb << 20:
                raise TooLarge("The document is larger than index.max_file_mb.", param="text")
            if room := await self._room(source.collection, label):
                room.demand(len(content), "text")
            item = Item(key, "", content, document.url, document.title, _SUFFIXES[document.format])

        def put() -> None:
            with mirror.hold():
                mirror.sync([item])

        await self._account("source.push", source, ownership, about=key)
        try:
            await asyncio.to_thread(put)
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_busy") from error
        if item.content is None:
            await self._write(collection_rows.forget_uploads, source.collection, label)
        else:
            sizes = {label: len(item.content)}
            await self._write(collection_rows.remember_uploads, source.collection, label, sizes, ownership)
        return await self._submit("sync", source.collection, ownership, self._work_pushed, source=name)

    @requires("server")
    async def sync_due(self, changed: set[str], last_reads: dict[str, float]) -> dict[str, str]:
        """Read the sources that are due or `changed`; return the names of the folders to watch, by place.

        A source is taken out of `changed`, and its time is put into `last_reads`, once its job is made.
        """
        now, watched = time.time(), dict[str, str]()
        for summary in await self.sources():
            source, last_read = summary.source, last_reads.get(summary.source.name, 0.0)
            if source.watch and await asyncio.to_thread(Path(source.location).is_dir):
                watched[source.location] = source.name
            # What was pushed may be indexed no more than a server before this one came to.
            due = (source.kind == "push" and not last_read) or (
                0 < source.seconds < 2 * (now - last_read) and now >= summary.due
            )
            if (due or source.name in changed) and not summary.busy:
                last_reads[source.name] = now
                await self.sync(source.name, if_due=source.name not in changed)
                changed.discard(source.name)
        return watched

    async def _mirror(self, name: str) -> tuple[SourceMirror, Source, Ownership]:
        """Return a source of a collection that is reached. Raises NotFound, or Conflict if it is damaged."""
        mirror = SourceMirror(self.core.settings.home / "sources", name)
        missing = NotFound(f"There is no source {name[:80]!r}.")
        if not is_name(name) or not await asyncio.to_thread(mirror.folder.is_dir):
            raise missing
        try:
            source = await asyncio.to_thread(lambda: mirror.source)
            return mirror, source, await self.reached(source.collection)
        except NotFound:
            raise missing from None
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_damaged") from error

    async def _account(self, did: str, source: Source, ownership: Ownership, about: str = "", **detail: str) -> None:
        await self.account(
            did, about or source.name, collection=source.collection, group=ownership.group, detail=detail
        )


def _results(source: Source, report: SyncReport, dry_run: bool) -> list[FileResult]:
    """Return the failures of a sync; for a dry run, everything it would do."""
    ended = [Change(key=source.name, outcome="failed", message=report.problem)] if report.problem else []
    return [
        FileResult(document_id=change.key, status="failed", message=change.message)
        if change.outcome == "failed"
        else FileResult(document_id=change.key, status="skipped", message=f"{change.outcome}: not done, only said")
        for change in (*ended, *report.changes)
        if dry_run or change.outcome == "failed"
    ]


def open_connector(source: Source, cache: Path, *, private_hosts: Collection[str], max_bytes: int) -> Connector:
    """Return the connector for a source; `cache` is a folder of its own. Raises SourceError, for kind `push` too."""
    if source.kind == "push":
        raise SourceError(f"{source.name} is not read from anywhere: documents are pushed to it")
    if source.kind not in ("folder", "git"):
        libraries = ("httpcore", "httpx_auth", "protego")
        need_extra("sources", f"A source of kind {source.kind}", *libraries, error=SourceError)
    guard = Guard(frozenset(name.lower() for name in private_hosts))
    connector: Connector = resolve_name(f"plugins.sources.{KINDS[source.kind][0]}")(source, cache, guard, max_bytes)
    return connector


async def follow(service: ChatService, tick: float = TICK) -> None:
    """Read each source that is due, and each watched folder that changes, until cancelled."""
    folders, changed, last_reads = dict[str, str](), set[str](), dict[str, float]()
    own = SourceService(service.core, service.principal)
    while True:
        async for paths in _changes(folders, tick):
            changed |= {name for folder, name in folders.items() if any(path.is_relative_to(folder) for path in paths)}
            try:
                watched = await own.sync_due(changed, last_reads)
            except ChatError as error:
                log.warning("sources are not looked at: %s", error)
                continue
            if watched != folders:
                folders = watched
                break


async def _changes(folders: Iterable[str], tick: float) -> AsyncIterator[list[Path]]:
    """Yield what changed in the folders, at least every `tick` seconds."""
    if folders and find_spec("watchfiles"):
        from watchfiles import awatch

        async for changes in awatch(*folders, rust_timeout=int(1000 * tick), yield_on_timeout=True):
            yield [Path(path) for _, path in changes]
    while True:
        yield []
        await asyncio.sleep(tick)
