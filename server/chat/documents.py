"""The part of the service that shows, adds, removes and re-indexes documents."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from index.errors import CollectionLocked, CollectionNotFound, DocumentNotFound, IndexingError, InvalidName
from server.chat.collections import Collections, checked_name
from server.chat.conversations import clean, store_errors
from server.chat.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.chat.models import Models
from server.chat.types import CollectionSummary, DocumentSummary, DocumentText, SectionView
from server.chat.uploads import Uploads, safe_name
from server.jobs import JobProgress, JobRunner
from server.settings import Settings
from server.store import Database, jobs
from server.store.records import FileResult, Job, JobKind

if TYPE_CHECKING:
    from index.indexer import FileStatus
    from index.records import DocumentInfo

T = TypeVar("T")

MAX_ID_CHARS = 2000


@contextmanager
def index_errors() -> Iterator[None]:
    """What the index raises, in the words of the service."""
    try:
        yield
    except CollectionNotFound as error:
        raise NotFound(str(error), code="collection_not_found", param="collection") from error
    except DocumentNotFound as error:
        raise NotFound(str(error), code="document_not_found", param="document_id") from error
    except InvalidName as error:
        raise InvalidRequest(str(error), code="invalid_collection_name", param="collection") from error
    except CollectionLocked as error:
        raise Conflict(str(error), code="collection_busy", param="collection") from error
    except IndexingError as error:
        raise Unavailable(str(error), code="index_failed") from error


async def in_thread(call: Callable[[], T]) -> T:
    """A blocking call on the index, in a thread, its errors translated."""
    with index_errors():
        return await asyncio.to_thread(call)


class DocumentMixin:
    """Collections, their documents, and the jobs that change them."""

    settings: Settings
    database: Database
    models: Models
    opened: Collections
    uploads: Uploads
    runner: JobRunner

    async def collections(self) -> list[CollectionSummary]:
        """Every collection, by name."""
        found = await in_thread(self.opened.listing)
        return [info.model_copy(update={"busy": self.runner.busy(info.name)}) for info in found]

    async def documents(self, collection: str) -> list[DocumentSummary]:
        """The documents of a collection, by id. Raises NotFound."""
        name = checked_name(collection)

        def read() -> list[DocumentSummary]:
            return [
                DocumentSummary(
                    id=info.id,
                    title=info.title,
                    source=info.source,
                    format=info.format,
                    passages=info.passages,
                    removable=self.uploads.holds(name, Path(info.path)),
                )
                for info in sorted(self.opened.get(name).documents(), key=lambda info: info.id)
            ]

        return await in_thread(read)

    async def document(self, collection: str, document_id: str) -> DocumentText:
        """A document's text as it was indexed. Raises NotFound."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")

        def read() -> DocumentText:
            document = self.opened.get(name).document(key)
            return DocumentText(
                id=document.id,
                title=document.title,
                source=str(document.metadata.get("source", document.id)),
                text=document.text,
                sections=tuple(
                    SectionView(heading=section.heading, start=section.start, end=section.end, page=section.page)
                    for section in document.sections
                ),
            )

        return await in_thread(read)

    async def upload(self, collection: str, filename: str, content: bytes | BinaryIO | Path) -> Job:
        """Keep a file and index it in the background; the collection is made if it is new.

        A file of the same name is replaced. Raises InvalidRequest, TooLarge or Unavailable.
        """
        from index.loaders import suffixes

        name = checked_name(collection)
        file = safe_name(filename[:MAX_ID_CHARS], set(suffixes()))
        kept = await asyncio.to_thread(self.uploads.keep, name, file, content)

        def work(progress: JobProgress) -> Iterable[FileResult]:
            # By its folder, not by itself, so that its id does not depend on what it came with.
            report = self._index(progress, name, [self.uploads.root(name)], prune=False, retry=[kept])
            return _results(file for file in report if Path(file.path) == kept)

        return await self._submit("upload", name, work)

    async def delete_document(self, collection: str, document_id: str) -> Job:
        """Remove an upload from its collection and from the disk. Raises NotFound, Conflict."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        documents = await in_thread(lambda: self.opened.get(name).documents())
        path = next((Path(info.path) for info in documents if info.id == key), None)
        if path is None:
            raise NotFound(
                f"There is no document {key[:200]!r} in {name}.", code="document_not_found", param="document_id"
            )
        if not self.uploads.holds(name, path):
            raise Conflict(
                "This document comes from an indexed folder and would come back. Delete its file there and re-index.",
                code="not_an_upload",
                param="document_id",
            )

        def work(progress: JobProgress) -> Iterable[FileResult]:
            progress.report("delete", 0, 1)
            # A file may hold many documents, and goes with all of them.
            gone = self._delete(name, lambda info: Path(info.path) == path)
            progress.report("delete", 1, 1)
            return gone

        # At once, so that neither the end of this process nor a new file of that name stands between.
        try:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        except OSError as error:
            raise Unavailable(f"{path.name} could not be deleted: {error.strerror or error}.") from error
        return await self._submit("delete", name, work)

    async def resume_uploads(self) -> None:
        """Bring the collections up to date whose uploading or deleting the end of a server has cut short."""
        with store_errors():
            names = await self.database.read(jobs.cut_short)

        def work(name: str, progress: JobProgress) -> Iterable[FileResult]:
            gone = list[FileResult]()
            if self.opened.exists(name):
                gone = self._delete(
                    name, lambda info: self.uploads.holds(name, Path(info.path)) and not Path(info.path).exists()
                )
            root = self.uploads.root(name)
            left = any(path.is_file() for path in root.rglob("*"))
            return [*gone, *_results(self._index(progress, name, [root], prune=False) if left else [])]

        for name in names:
            await self._submit("upload", name, partial(work, name))

    async def index_paths(self, collection: str, paths: Sequence[Path], *, replace: bool = False) -> Job:
        """Index files and folders of this machine, and remember them for `reindex`.

        They join what the collection was made from, or with `replace` take its place: then documents from
        elsewhere are removed. Uploads stay.
        """
        name = checked_name(collection)
        given = [path.expanduser().absolute() for path in paths]
        for path in given:
            if not await asyncio.to_thread(path.exists):
                raise InvalidRequest(f"There is no file or folder {path}.", code="path_not_found", param="paths")

        def work(progress: JobProgress) -> Iterable[FileResult]:
            def remember(connection: sqlite3.Connection) -> list[Path]:
                if replace:
                    jobs.forget_sources(connection, name)
                jobs.remember_sources(connection, name, given)
                return jobs.sources(connection, name)

            sources = self.database.write_blocking(remember)
            report = _results(self._index(progress, name, self._with_uploads(name, sources), prune=True))
            return [*report, *self._remove_others(name, sources)] if replace else report

        return await self._submit("index", name, work)

    async def reindex(self, collection: str) -> Job:
        """Index the collection's remembered paths and uploads again; what did not change is kept.

        Raises NotFound for an unknown collection, Conflict where no path is remembered.
        """
        name = checked_name(collection)
        with store_errors():
            sources = await self.database.read(lambda connection: jobs.sources(connection, name))
        paths = await asyncio.to_thread(self._with_uploads, name, sources)
        if not paths:
            if not await in_thread(lambda: self.opened.exists(name)):
                raise NotFound(f"There is no collection {name!r}.", code="collection_not_found", param="collection")
            raise Conflict(
                f"Where {name} came from is not known. Index it once with `anaphora index PATH --collection {name}`.",
                code="no_sources",
            )
        return await self._submit(
            "reindex", name, lambda progress: _results(self._index(progress, name, paths, prune=True))
        )

    async def delete_collection(self, collection: str) -> None:
        """Delete the collection with its uploads; the folders it was made from are left alone.

        Raises NotFound, or Conflict while a job works on it.
        """
        name = checked_name(collection)
        if busy := self.runner.busy(name):
            raise Conflict(f"The job {busy} is working on {name}. Cancel it or wait for it.", code="collection_busy")
        try:
            await in_thread(lambda: self.opened.delete(name))
        except NotFound:
            # Cut short by the end of a server, deleting it is asked for again.
            if not await asyncio.to_thread(self.uploads.root(name).is_dir):
                raise
        await asyncio.to_thread(self.uploads.remove_all, name)
        with store_errors():
            await self.database.write(lambda connection: jobs.forget_sources(connection, name))

    async def job(self, job_id: str) -> Job:
        """How a job stands. Raises NotFound."""
        key = clean(job_id, MAX_ID_CHARS, "job_id")
        with store_errors():
            found = await asyncio.to_thread(self.runner.find, key)
        if found is None:
            raise NotFound(f"There is no job {key[:80]!r}.", code="job_not_found")
        return found

    async def jobs(self, collection: str | None = None) -> list[Job]:
        """Newest first."""
        name = checked_name(collection) if collection else None
        with store_errors():
            return await asyncio.to_thread(self.runner.listing, name)

    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop; the collection then stays as it was before it. Raises NotFound."""
        self.runner.cancel((await self.job(job_id)).id)
        return await self.job(job_id)

    async def _submit(self, kind: JobKind, name: str, work: Callable[[JobProgress], Iterable[FileResult]]) -> Job:
        with store_errors():
            return await asyncio.to_thread(self.runner.submit, kind, name, work)

    def _with_uploads(self, name: str, sources: Sequence[Path]) -> list[Path]:
        uploads = self.uploads.root(name)
        return [*sources, uploads] if uploads.is_dir() else list(sources)

    def _remove_others(self, name: str, sources: Sequence[Path]) -> list[FileResult]:
        """Remove documents that are no uploads and lie under none of the sources."""
        roots = [source.resolve() for source in sources]
        return self._delete(
            name,
            lambda info: (
                not self.uploads.holds(name, Path(info.path))
                and not any(Path(info.path).resolve().is_relative_to(root) for root in roots)
            ),
        )

    def _delete(self, name: str, unwanted: Callable[[DocumentInfo], bool]) -> list[FileResult]:
        from index.indexer import delete_documents

        gone = [info.id for info in self.opened.get(name).documents() if unwanted(info)]
        if gone:
            store = self.settings.index.vectors
            delete_documents(self.opened.root, name, gone, self.models.encoder(), store=store)
            self.opened.changed(name)
        return [FileResult(document_id=document_id, status="deleted") for document_id in gone]

    def _index(
        self, progress: JobProgress, name: str, paths: Sequence[Path], *, prune: bool, retry: Sequence[Path] = ()
    ) -> list[FileStatus]:
        from index.indexer import index_paths
        from index.loaders.sandbox import Limits

        index = self.settings.index
        report = index_paths(
            self.opened.root,
            name,
            paths,
            self.models.encoder(),
            include=index.include,
            exclude=index.exclude,
            passage_tokens=index.passage_tokens,
            max_file_mb=index.max_file_mb,
            prune=prune,
            retry=retry,
            limits=Limits(index.parse_seconds, index.parse_memory_mb),
            store=index.vectors,
            progress=lambda step: progress.report(step.stage, step.done, step.total),
            cancelled=progress.cancelled,
        )
        self.opened.changed(name)
        if report.version:
            # Open it now, so that the next question need not wait for that.
            self.opened.get(name)
        return report.files


def _results(files: Iterable[FileStatus]) -> list[FileResult]:
    return [
        FileResult(document_id=file.document_id, status=file.status, message=file.message, passages=file.passages)
        for file in files
    ]
