"""The part of the service that follows sources: described, read when they are due or asked for, pushed to, removed.

A run is a job on the source's collection: the source's mirror is brought up to date (`index.sources`), then indexed as
any folder is. Principals that may decide about the server's machine add and remove sources; operators of the collection
sync them and push documents.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from index.errors import SourceError
from index.sources import Item, Kept, Source, SourceMirror, SyncReport, mirrors, open_connector
from server.access import Ownership
from server.chat.authorization import requires
from server.chat.documents import DocumentMixin, making_a_job
from server.chat.error_mapping import Conflict, InvalidRequest, NotFound, TooLarge, clean
from server.jobs import JobProgress
from server.store import uploads
from server.store.records import FileResult, Job
from text.names import is_name

MAX_KEY_CHARS = 500
_SUFFIXES = {"markdown": ".md", "html": ".html", "text": ".txt"}


class SourceSummary(BaseModel):
    """A source and how it stands; `busy` is the job that works on its collection."""

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


class SourceMixin(DocumentMixin):
    """Sources of the collections of whoever acts."""

    @requires("documents")
    async def sources(self) -> list[SourceSummary]:
        """Every source whose collection is reached, by name."""
        seen = []
        for mirror in await asyncio.to_thread(mirrors, self.core.sources):
            try:
                seen.append((await self.source(mirror.folder.name)).model_copy(update={"items": {}}))
            except NotFound:
                continue
        return seen

    @requires("documents")
    async def source(self, name: str) -> SourceSummary:
        """One source with its documents. Raises NotFound, or Conflict where its file is damaged."""
        mirror, source, _ = await self._mirror(name)
        state = await asyncio.to_thread(lambda: mirror.state)
        return SourceSummary(
            source=source,
            documents=sum(1 for document in state.documents.values() if document.path),
            failed=sum(1 for document in state.documents.values() if document.problem),
            due=state.due,
            last=state.last,
            busy=await self._busy(source.collection),
            items=state.documents,
        )

    @requires("server")
    async def add_source(self, source: Source) -> SourceSummary:
        """Follow a source; it is read for the first time at once. Raises Conflict for a name that is taken."""
        mirror = SourceMirror(self.core.sources, source.name)
        if mirror.folder.exists():
            raise Conflict(f"There is a source {source.name} already. Remove it first.", code="source_exists")
        ownership = await self._made(source.collection, "")
        about = {"kind": source.kind, "location": source.location}
        await self.account("source.add", source.name, collection=source.collection, group=ownership.group, detail=about)
        await asyncio.to_thread(mirror.write, source)
        if source.kind != "push":
            await self.sync_source(source.name)
        return await self.source(source.name)

    @requires("documents")
    @making_a_job
    async def sync_source(self, name: str, *, dry_run: bool = False, if_due: bool = False) -> Job:
        """Read a source now; with `dry_run` the job only says what has changed, with `if_due` it does nothing where
        another server has read the source meanwhile. Raises NotFound."""
        mirror, source, ownership = await self._mirror(name)

        def read(progress: JobProgress) -> list[FileResult]:
            settings = self.core.settings
            if source.kind == "push" or (if_due and time.time() < mirror.state.due):
                return []
            with mirror.hold():
                hosts, max_bytes = settings.sources.private_hosts, settings.index.max_file_mb << 20
                connector = open_connector(source, mirror.cache, private_hosts=hosts, max_bytes=max_bytes)
                try:
                    report = mirror.take(
                        connector.items(mirror.known(), progress.pause),
                        whole=connector.lists_all,
                        dry_run=dry_run,
                        progress=lambda done, total: progress.report("crawl", done, max(done, total)),
                    )
                finally:
                    connector.close()
            return _told(source, report, dry_run)

        await self.account("source.sync", name, collection=source.collection, group=ownership.group)
        return await self._follow(mirror, source, ownership, read, index=not dry_run)

    @requires("server")
    @making_a_job
    async def remove_source(self, name: str) -> Job:
        """Take a source and its documents away. Raises NotFound."""
        mirror, source, ownership = await self._mirror(name)

        def forget(progress: JobProgress) -> list[FileResult]:
            root, gone = mirror.files.resolve(), list[FileResult]()
            if self.core.opened.exists(source.collection):
                gone = self._delete(source.collection, lambda info: Path(info.path).is_relative_to(root))
            mirror.remove()
            self.core.database.write_blocking(uploads.forget_source, source.collection, name)
            return gone

        await self.account("source.remove", name, collection=source.collection, group=ownership.group)
        return await self._follow(mirror, source, ownership, forget, index=False)

    @requires("documents")
    @making_a_job
    async def push(self, name: str, key: str, document: PushedDocument | None) -> Job:
        """Keep a document under its key, or with None delete it, and index that in the background.

        Raises NotFound, InvalidRequest for a source of another kind, TooLarge.
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
                mirror.take([item])

        await self.account("source.push", key, collection=source.collection, group=ownership.group)
        try:
            await asyncio.to_thread(put)
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_busy") from error

        if item.content is None:
            await self._write(uploads.forget, source.collection, label)
        else:
            await self._write(uploads.remember, source.collection, label, len(item.content), ownership)
        return await self._follow(mirror, source, ownership, lambda progress: [])

    @requires("server")
    async def sync_due(self, changed: set[str]) -> dict[str, str]:
        """Read what is due, and the sources `changed`, each of which is taken out of there once its job is made. Gives
        the folders to watch, and whose each is."""
        now, watched = time.time(), dict[str, str]()
        for due_source in await self.sources():
            source, requested = due_source.source, self.core.asked.get(due_source.source.name, 0.0)
            if source.watch and await asyncio.to_thread(Path(source.location).is_dir):
                watched[source.location] = source.name
            # What was pushed may be indexed no more than a server before this one came to.
            due = (source.kind == "push" and not requested) or (
                0 < source.seconds < 2 * (now - requested) and now >= due_source.due
            )
            if (due or source.name in changed) and not due_source.busy:
                self.core.asked[source.name] = now
                await self.sync_source(source.name, if_due=source.name not in changed)
                changed.discard(source.name)
        return watched

    async def _mirror(self, name: str) -> tuple[SourceMirror, Source, Ownership]:
        """A source that is there for whoever acts. Raises NotFound."""
        mirror, missing = SourceMirror(self.core.sources, name), NotFound(f"There is no source {name[:80]!r}.")
        if not is_name(name) or not await asyncio.to_thread(mirror.folder.is_dir):
            raise missing
        try:
            source = await asyncio.to_thread(lambda: mirror.source)
            return mirror, source, await self.reached(source.collection)
        except NotFound:
            raise missing from None
        except SourceError as error:
            raise Conflict(f"{error}.", code="source_damaged") from error

    async def _follow(
        self,
        mirror: SourceMirror,
        source: Source,
        ownership: Ownership,
        first: Callable[[JobProgress], list[FileResult]],
        index: bool = True,
    ) -> Job:
        """A job that does something first, then indexes the mirror as it is; it tells of what changed."""

        def work(progress: JobProgress) -> Iterable[FileResult]:
            results = first(progress)
            indexed = self._index_root(progress, source.collection, mirror.files) if index else []
            return [*results, *(result for result in indexed if result.status != "unchanged")]

        return await self._submit("sync", source.collection, work, ownership)


def _told(source: Source, report: SyncReport, dry_run: bool) -> list[FileResult]:
    """Return the failures of a sync; for a dry run, everything it would do."""
    results = [FileResult(document_id=source.name, status="failed", message=report.problem)] if report.problem else []
    for change in report.changes:
        if change.outcome == "failed":
            results.append(FileResult(document_id=change.key, status="failed", message=change.message))
        elif dry_run:
            results.append(
                FileResult(document_id=change.key, status="skipped", message=f"{change.outcome}: not done, only said")
            )
    return results
