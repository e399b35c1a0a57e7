"""The part of the service that follows sources: described, read when they are due or asked for, pushed to, removed.

A run is a job on the source's collection: the source's mirror is brought up to date (`index.sources`), then indexed as
any folder is. Whoever may decide about the server's machine adds and removes sources; operators of the collection read
them again and push documents.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from index.errors import SourceError
from index.sources import Item, Kept, Mirror, Source, SyncReport, open_connector
from server.chat.acting import acting
from server.chat.conversations import clean
from server.chat.documents import DocumentMixin, making_a_job
from server.chat.errors import Conflict, InvalidRequest, NotFound, TooLarge
from server.jobs import JobProgress
from server.store.records import FileResult, Job
from text.names import is_name

MAX_KEY_CHARS = 500
_LEAST_SECONDS = 60.0
"""A source that could not even be tried is not tried again sooner."""
_SUFFIXES = {"markdown": ".md", "html": ".html", "text": ".txt"}


class SourceDocument(BaseModel):
    """A document of a source: its address, what is wrong with it, when it changed (seconds since the epoch)."""

    key: str
    url: str
    problem: str
    changed: float


class SourceSummary(BaseModel):
    """A source and how it stands; `busy` is the job that works on its collection, `items` are its documents."""

    source: Source
    documents: int
    failed: int
    due: float = Field(description="When it is read again, in seconds since the epoch; 0 for never.")
    last: SyncReport | None
    busy: str | None
    items: tuple[SourceDocument, ...] = ()


class PushedDocument(BaseModel):
    """A document that a program brings, in place of the one it brought before."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1)
    title: str = Field("", max_length=300)
    url: str = Field("", max_length=2000, description="Where people open it; citations lead there.")
    format: str = Field("markdown", pattern="^(markdown|html|text)$")


class SourceMixin(DocumentMixin):
    """Sources of the collections of whoever acts."""

    @acting("documents")
    async def sources(self) -> list[SourceSummary]:
        """Every source whose collection is reached, by name."""
        root = self.core.sources
        names = await asyncio.to_thread(lambda: sorted(one.parent.name for one in root.glob("*/source.json")))
        shown = []
        for name in names:
            try:
                shown.append(await self.source(name))
            except (NotFound, Conflict):
                continue
        return [one.model_copy(update={"items": ()}) for one in shown]

    @acting("documents")
    async def source(self, name: str) -> SourceSummary:
        """One source with its documents. Raises NotFound, or Conflict where its file is damaged."""
        mirror, source = await self._mirror(name)
        state = await asyncio.to_thread(lambda: mirror.state)
        kept = state.documents
        return SourceSummary(
            source=source,
            documents=sum(1 for one in kept.values() if one.path),
            failed=sum(1 for one in kept.values() if one.problem),
            due=state.due,
            last=state.last,
            busy=self.core.runner.busy(source.collection),
            items=tuple(_shown(key, one) for key, one in sorted(kept.items())),
        )

    @acting("server")
    async def add_source(self, source: Source) -> SourceSummary:
        """Follow a source; it is read for the first time at once. Raises Conflict for a name that is taken."""
        mirror = Mirror(self.core.sources, source.name)
        if mirror.folder.exists():
            raise Conflict(f"There is a source {source.name} already. Remove it first.", code="source_exists")
        whose = await self._made(source.collection, "")
        about = {"kind": source.kind, "location": source.location}
        await self.account("source.add", source.name, collection=source.collection, group=whose.group, detail=about)
        await asyncio.to_thread(mirror.write, source)
        if source.kind != "push":
            await self.sync_source(source.name)
        return await self.source(source.name)

    @acting("documents")
    @making_a_job
    async def sync_source(self, name: str, *, dry_run: bool = False) -> Job:
        """Read a source now; with `dry_run` the job only says what has changed. Raises NotFound."""
        mirror, source = await self._mirror(name)
        whose = await self.reached(source.collection)
        settings = self.core.settings

        def work(progress: JobProgress) -> Iterable[FileResult]:
            if source.kind == "push":
                return self._index_mirror(progress, mirror, source)
            max_bytes = settings.index.max_file_mb << 20
            with mirror.hold():
                hosts = settings.sources.private_hosts
                connector = open_connector(source, mirror.cache, private_hosts=hosts, max_bytes=max_bytes)
                try:
                    report = mirror.sync(
                        connector,
                        dry_run=dry_run,
                        pause=progress.pause,
                        progress=lambda done, known: progress.report("crawl", done, max(done, known)),
                    )
                finally:
                    connector.close()
            indexed = [] if dry_run else self._index_mirror(progress, mirror, source)
            return [*_told(source, report, dry_run), *indexed]

        await self.account("source.sync", name, collection=source.collection, group=whose.group)
        return await self._submit("sync", source.collection, work, whose)

    @acting("server")
    @making_a_job
    async def remove_source(self, name: str) -> Job:
        """Take a source and its documents away. Raises NotFound."""
        mirror, source = await self._mirror(name)
        whose = await self.reached(source.collection)

        def work(progress: JobProgress) -> Iterable[FileResult]:
            root, gone = mirror.files.resolve(), list[FileResult]()
            if self.core.opened.exists(source.collection):
                gone = self._delete(source.collection, lambda info: Path(info.path).is_relative_to(root))
            mirror.remove()
            return gone

        await self.account("source.remove", name, collection=source.collection, group=whose.group)
        return await self._submit("sync", source.collection, work, whose)

    @acting("documents")
    @making_a_job
    async def push(self, name: str, key: str, document: PushedDocument | None) -> Job:
        """Keep a document under its key, or with None delete it, and index that in the background.

        Raises NotFound, InvalidRequest for a source of another kind, TooLarge.
        """
        mirror, source = await self._mirror(name)
        whose, key = await self.reached(source.collection), clean(key, MAX_KEY_CHARS, "key").strip()
        if source.kind != "push" or not key:
            raise InvalidRequest(f"{name} is of kind {source.kind}: documents are pushed to a source of kind push.")
        item = Item(key, gone=True)
        if document is not None:
            content = document.text.encode("utf-8", "replace")
            if len(content) > self.core.settings.index.max_file_mb << 20:
                raise TooLarge("The document is larger than index.max_file_mb.", param="text")
            item = Item(key, "", content, document.url, document.title, _SUFFIXES[document.format])

        def put() -> None:
            with mirror.hold():
                mirror.put(item)

        await self.account("source.push", key, collection=source.collection, group=whose.group)
        try:
            await asyncio.to_thread(put)
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_busy") from error

        def work(progress: JobProgress) -> Iterable[FileResult]:
            return self._index_mirror(progress, mirror, source)

        return await self._submit("sync", source.collection, work, whose)

    @acting("server")
    async def sync_due(self, changed: Collection[str] = ()) -> dict[str, str]:
        """Read what is due, and the sources `changed`. Gives the folders to watch, and whose each is."""
        now, watched = time.time(), dict[str, str]()
        for one in await self.sources():
            source, asked = one.source, self.core.asked.get(one.source.name, 0.0)
            if source.watch and await asyncio.to_thread(Path(source.location).is_dir):
                watched[source.location] = source.name
            due = source.seconds and now >= one.due and now - asked > max(_LEAST_SECONDS, 0.5 * source.seconds)
            if (due or source.name in changed) and not one.busy:
                self.core.asked[source.name] = now
                await self.sync_source(source.name)
        return watched

    async def _mirror(self, name: str) -> tuple[Mirror, Source]:
        """A source that is there for whoever acts. Raises NotFound."""
        mirror, missing = Mirror(self.core.sources, name), NotFound(f"There is no source {name[:80]!r}.")
        if not is_name(name) or not await asyncio.to_thread(mirror.folder.is_dir):
            raise missing
        try:
            source = await asyncio.to_thread(lambda: mirror.source)
            await self.reached(source.collection)
        except NotFound:
            raise missing from None
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_damaged") from error
        return mirror, source

    def _index_mirror(self, progress: JobProgress, mirror: Mirror, source: Source) -> list[FileResult]:
        found = self._index_root(progress, source.collection, mirror.files)
        return [one for one in found if one.status != "unchanged"]


def _shown(key: str, kept: Kept) -> SourceDocument:
    return SourceDocument(key=key, url=kept.url, problem=kept.problem, changed=kept.changed)


def _told(source: Source, report: SyncReport, dry_run: bool) -> list[FileResult]:
    """What a run could not read; of a dry run, everything it would do."""
    told = [FileResult(document_id=source.name, status="failed", message=report.problem)] if report.problem else []
    for one in report.changes:
        if one.outcome == "failed":
            told.append(FileResult(document_id=one.key, status="failed", message=one.message))
        elif dry_run:
            told.append(
                FileResult(document_id=one.key, status="skipped", message=f"{one.outcome}: not done, only said")
            )
    return told
