"""`CollectionService`: index, read, show, grant and delete collections and their documents."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from index.errors import IndexingError
from index.loaders.sandbox import PagePicture
from index.passages import boxes_of
from server.access import DEFAULT_GROUP, LOCAL, Ownership, group_of, own_group
from server.chat.base import (
    MAX_ID_CHARS,
    Conflict,
    Forbidden,
    InvalidRequest,
    LimitReached,
    NotFound,
    ServiceBase,
    Unavailable,
    checked_name,
    clean,
    no_collection,
    requires,
    run_blocking,
)
from server.chat.documents import (
    LEAST_WIDTH,
    MOST_WIDTH,
    DocumentImage,
    DocumentSummary,
    DocumentText,
    PassagePage,
    document_text,
    draw,
    read_image,
    shown_in,
)
from server.chat.loaded_models import CollectionSummary
from server.chat.uploads import ARCHIVE, FOLDER, Room, safe_name, upload_name
from server.jobs import JobProgress, Work
from server.plugins import parts
from server.store import collection_rows, jobs, schema
from server.store.records import FileResult, Job, JobKind
from server.turn.events import PageBox

if TYPE_CHECKING:
    from index.records import DocumentInfo
    from index.writer import IndexProgress
    from server.chat.service import ServiceCore


FIRST_PART_SECONDS = 10.0
"""After so long the first embedded passages are found by meaning; each further part takes twice as long."""
JOB_SECONDS = 5
"""When to try again where jobs are in the way: nobody knows how long one takes."""
_UNUSABLE = "It cannot be used now; an operator sees why."


M = TypeVar("M", bound="CollectionService")
P = ParamSpec("P")


def making_a_job(method: Callable[Concatenate[M, P], Awaitable[Job]]) -> Callable[Concatenate[M, P], Awaitable[Job]]:
    """Refuses one job too many; those of one principal are made one after the other, so that none slips through."""

    @functools.wraps(method)
    async def made(self: M, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        async with self.core.limits.one_at_a_time(self.principal):
            at_most = self.core.limits.quota(self.principal, "jobs")
            count = await self._read(jobs.unfinished, self.principal.id) if at_most else 0
            if at_most and count >= at_most:
                raise LimitReached(
                    f"{count} jobs of yours are not finished, and {at_most} are allowed (limits.jobs).",
                    retry_after=JOB_SECONDS,
                )
            return await method(self, *args, **kwargs)

    return made


class CollectionService(ServiceBase):
    """Collections, their documents and grants, and the jobs that change them."""

    @requires("read")
    async def listing(self) -> list[CollectionSummary]:
        """Every collection that is seen, by name."""
        collections = await self.listed()
        if not self.may("documents"):
            return [info.model_copy(update={"problem": _UNUSABLE if info.problem else ""}) for info in collections]
        return [info.model_copy(update={"busy": await self._busy(info.name)}) for info in collections]

    async def _busy(self, collection: str) -> str | None:
        """The job that works on a collection or will next."""
        return await run_blocking(lambda: self.core.runner.busy(collection))

    @requires("documents")
    @making_a_job
    async def upload(self, collection: str, filename: str, content: BinaryIO) -> Job:
        """Keep a file and index it in the background; the collection is made if it is new.

        A file of the same name is replaced. Of a zip archive the documents and pictures are kept, in a folder of its
        name that replaces the one that was there. Raises InvalidRequest, TooLarge or Unavailable.
        """
        from index.loaders import suffixes

        name, uploads = checked_name(collection), self.core.uploads
        endings = suffixes()
        file = safe_name(filename[:MAX_ID_CHARS], endings | {ARCHIVE})
        packed = file.endswith(ARCHIVE) and ARCHIVE not in endings
        if packed:
            stem, dot, ending = file.removesuffix(ARCHIVE).rpartition(".")
            # A file of that name may come beside it.
            file = f"{stem}-{ending}" if f".{ending}" in endings else f"{stem}{dot}{ending}"
        ownership = await self._made(name, "")
        room = await self._room(name, file)
        keep = partial(uploads.unpack, suffixes=endings) if packed else uploads.keep
        stored, sizes = await asyncio.to_thread(keep, name, file, content, room)
        await self._write(collection_rows.remember_uploads, name, file, sizes, ownership)
        await self.account("document.upload", f"{FOLDER}/{file}", collection=name, group=ownership.group)
        return await self._submit("upload", name, ownership, self._work_upload, stored=str(stored), packed=packed)

    def _work_upload(self, progress: JobProgress, name: str, stored: str, packed: bool) -> Iterable[FileResult]:
        path = Path(stored)
        gone = self._gone(progress, name, path) if packed else []
        # By its folder, not by itself, so that its id does not depend on what it came with.
        return [*gone, *self._index(progress, name, [self.core.uploads.root(name)], prune=False, only=path)]

    @requires("documents")
    @making_a_job
    async def delete_document(self, collection: str, document_id: str) -> Job:
        """Remove an upload from its collection and from the disk. Raises NotFound, Conflict."""
        name, key = checked_name(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        ownership = await self.existing(name)
        documents = await run_blocking(lambda: self.core.opened.get(name).documents())
        path = next((Path(info.path) for info in documents if info.id == key), None)
        if path is None:
            raise NotFound(
                f"There is no document {key[:200]!r} in {name}.", code="document_not_found", param="document_id"
            )
        if not self.core.uploads.holds(name, path):
            raise Conflict(
                "This document comes from an indexed folder and would come back. Delete its file there and re-index.",
                code="not_an_upload",
                param="document_id",
            )
        await self.account("document.delete", key, collection=name, group=ownership.group)
        # At once, so that neither the end of this process nor a new file of that name stands between.
        try:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        except OSError as error:
            raise Unavailable(f"{path.name} could not be deleted: {error.strerror or error}.") from error
        await self._write(collection_rows.forget_uploads, name, upload_name(key))
        return await self._submit("delete", name, ownership, self._work_delete, path=str(path))

    def _work_delete(self, progress: JobProgress, name: str, path: str) -> Iterable[FileResult]:
        progress.report("delete", 0, 1)
        # A file may hold many documents, and goes with all of them.
        gone = self._delete(progress, name, lambda info: Path(info.path) == Path(path))
        progress.report("delete", 1, 1)
        return gone

    @requires("server")
    async def resume_uploads(self) -> None:
        """Bring the collections up to date whose uploading or deleting the end of a server has cut short."""
        # Whoever asks beside finds them resumed.
        async with self.core.resuming:
            await run_blocking(self.core.uploads.recover)
            for name in await self._read(jobs.cut_short):
                await self._submit("upload", name, await self.reached(name), self._work_uploads)

    def _work_uploads(self, progress: JobProgress, name: str) -> Iterable[FileResult]:
        return self._index_root(progress, name, self.core.uploads.root(name))

    @requires("server")
    @making_a_job
    async def index_paths(
        self, collection: str, paths: Sequence[Path], *, replace: bool = False, group: str = ""
    ) -> Job:
        """Index files and folders of this machine, and remember them for `reindex`.

        They join what the collection was made from, or with `replace` take its place: then documents from
        elsewhere are removed. Uploads stay. `group` is whom a new collection is granted to.
        """
        name = checked_name(collection)
        absolute = [path.expanduser().absolute() for path in paths]
        for path in absolute:
            if not await asyncio.to_thread(path.exists):
                raise InvalidRequest(f"There is no file or folder {path}.", code="path_not_found", param="paths")
        ownership = await self._made(name, group)
        await self.account("collection.index", name, collection=name, group=ownership.group)
        texts = list(map(str, absolute))
        return await self._submit("index", name, ownership, self._work_index, paths=texts, replace=replace)

    def _work_index(
        self, progress: JobProgress, name: str, paths: Sequence[str], replace: bool
    ) -> Iterable[FileResult]:
        given = list(map(Path, paths))

        def remember(connection: Connection) -> list[Path]:
            if replace:
                collection_rows.forget_sources(connection, name)
            collection_rows.remember_sources(connection, name, given)
            # Of a name that is no UTF-8 nothing is remembered, and its files are told all the same.
            return list(dict.fromkeys((*collection_rows.remembered_sources(connection, name), *given)))

        sources = self.core.database.write_blocking(remember)
        report = self._index(progress, name, self._with_uploads(name, sources), prune=True)
        if not replace:
            return report
        roots = [source.resolve() for source in (*sources, *self._own_roots(name))]
        return report + self._delete(
            progress, name, lambda info: not any(Path(info.path).resolve().is_relative_to(root) for root in roots)
        )

    @requires("documents")
    @making_a_job
    async def reindex(self, collection: str) -> Job:
        """Index the collection's remembered paths and uploads again; what did not change is kept.

        Raises NotFound for an unknown collection, Conflict where no path is remembered.
        """
        name = checked_name(collection)
        ownership = await self.reached(name)
        sources = await self._read(collection_rows.remembered_sources, name)
        if not await asyncio.to_thread(self._with_uploads, name, sources):
            if not await run_blocking(lambda: self.core.opened.exists(name)):
                raise no_collection(name)
            raise Conflict(
                f"Where {name} came from is not known. Index it once with `anaphora index PATH --collection {name}`.",
                code="no_sources",
            )
        await self.account("collection.reindex", name, collection=name, group=ownership.group)
        return await self._submit("reindex", name, ownership, self._work_reindex)

    def _work_reindex(self, progress: JobProgress, name: str) -> Iterable[FileResult]:
        sources = self.core.database.read_blocking(collection_rows.remembered_sources, name)
        return self._index(progress, name, self._with_uploads(name, sources), prune=True)

    @requires("documents")
    async def delete(self, collection: str) -> None:
        """Delete the collection with its uploads and sources; the folders it was made from are left alone.

        Whom it is granted to stays: conversations about it are shown to nobody else if there is another of its name.
        Raises NotFound, Forbidden where other groups use it too, or Conflict while a job works on it.
        """
        name = checked_name(collection)
        ownership = await self.reached(name)
        granted = await self._read(schema.groups_of, name)
        if others := [group for group in granted if not self.principal.in_group(group)]:
            words = f"{name} is used by {len(others)} other groups too; an operator of every group may delete it."
            raise self.refusal("documents", name, Forbidden(words))
        if busy := await self._busy(name):
            raise Conflict(f"The job {busy} is working on {name}. Cancel it or wait for it.", code="collection_busy")
        await self.account("collection.delete", name, collection=name, group=ownership.group)
        try:
            await run_blocking(lambda: self.core.opened.delete(name))
        except NotFound:
            # Cut short by the end of a server, deleting it is asked for again.
            if not await asyncio.to_thread(self.core.uploads.root(name).is_dir):
                raise no_collection(name) from None
        for delete_documents in parts("delete_documents"):
            await run_blocking(partial(delete_documents, self.core.settings.home, name))
        await asyncio.to_thread(self.core.uploads.remove_all, name)
        await self._write(collection_rows.forget, name)

    async def _room(self, name: str, file: str) -> Room | None:
        """Return what whoever acts has stored and may store, but for the file to be replaced; None without a limit."""
        allowed = self.core.limits.quota(self.principal, "stored_mb") << 20
        used = await self._read(collection_rows.uploaded_bytes, self.principal.id, (name, file)) if allowed else 0
        return Room(used, allowed) if allowed else None

    async def _submit(
        self, kind: JobKind, name: str, ownership: Ownership, work: Callable[..., Iterable[FileResult]], **how: Any
    ) -> Job:
        """Make a job that calls a `_work_` method of this service with `how`, of what JSON can hold: here, or in a
        worker by `work_of`."""
        return await run_blocking(lambda: self._submit_blocking(kind, name, ownership, work, **how))

    def _submit_blocking(
        self, kind: JobKind, name: str, ownership: Ownership, work: Callable[..., Iterable[FileResult]], **how: Any
    ) -> Job:
        payload = json.dumps([type(self).__name__, work.__name__, how])
        return self.core.runner.submit(kind, name, lambda progress: work(progress, name, **how), ownership, payload)

    async def _made(self, name: str, group: str) -> Ownership:
        """Return the owner of a new row about a collection, which may not exist yet.

        A new one is granted to `group`, or to the first group of whoever makes it; one that is there to `group` too.
        Raises NotFound for one of others.
        """
        if group:
            checked_name(group, "group")
        granted = await self._read(schema.groups_of, name)
        there = await run_blocking(lambda: self.core.opened.exists(name))
        if granted or there:
            reached = group_of(self.principal, granted)
            if reached is None:
                raise no_collection(name)
            if not group or group in granted:
                return Ownership(self.principal.id, group or reached)
        else:
            group = group or own_group(self.principal)
        if granted or group != DEFAULT_GROUP:
            await self._write(schema.grant, name, group)
        return Ownership(self.principal.id, group)

    def _index_root(self, progress: JobProgress, name: str, root: Path) -> list[FileResult]:
        """Index a folder of ours as it is now, which may have become empty."""
        gone = self._gone(progress, name, root)
        left = any(path.is_file() and not path.name.startswith(".") for path in root.rglob("*"))
        return [*gone, *(self._index(progress, name, [root], prune=False) if left else [])]

    def _gone(self, progress: JobProgress, name: str, root: Path) -> list[FileResult]:
        """Take documents out whose files below a folder of ours are gone."""
        real = root.resolve()
        if not self.core.opened.exists(name):
            return []
        return self._delete(
            progress, name, lambda info: Path(info.path).is_relative_to(real) and not Path(info.path).exists()
        )

    def _with_uploads(self, name: str, sources: Sequence[Path]) -> list[Path]:
        return [*sources, *(root for root in self._own_roots(name) if root.is_dir())]

    def _own_roots(self, name: str) -> list[Path]:
        """The folders of ours that hold documents of a collection."""
        folders = (folder for find in parts("document_folders") for folder in find(self.core.settings.home, name))
        return [self.core.uploads.root(name), *folders]

    def _delete(self, progress: JobProgress, name: str, unwanted: Callable[[DocumentInfo], bool]) -> list[FileResult]:
        from index.indexer import delete_documents

        gone = [info.id for info in self.core.opened.get(name).documents() if unwanted(info)]
        if gone:
            store = self.core.settings.index.vectors
            report = delete_documents(self.core.opened.root, name, gone, self.core.models.encoder(), store=store)
            self.core.opened.changed(name)
            if report.without_vector:
                self._embed_later(name, progress.ownership)
        return [FileResult(document_id=document_id, status="deleted") for document_id in gone]

    def _index(
        self, progress: JobProgress, name: str, paths: Sequence[Path], *, prune: bool, only: Path | None = None
    ) -> list[FileResult]:
        from index.indexer import index_paths
        from index.loaders.sandbox import Limits

        index = self.core.settings.index
        report = index_paths(
            self.core.opened.root,
            name,
            paths,
            self.core.models.encoder(),
            include=index.include,
            exclude=index.exclude,
            passage_tokens=index.passage_tokens,
            max_file_mb=index.max_file_mb,
            prune=prune,
            retry=[only] if only else [],
            limits=Limits(ocr_languages=index.ocr_languages),
            store=index.vectors,
            language=index.language,
            site_urls=index.site_urls,
            progress=lambda step: progress.report(step.stage, step.done, step.total),
            cancelled=progress.cancelled,
            enough=lambda: True,
        )
        self.core.opened.changed(name)
        if report.version:
            # Open it now, so that the next question need not wait for that.
            self.core.opened.get(name)
        if report.without_vector:
            self._embed_later(name, progress.ownership)
        files = [file for file in report.files if only is None or Path(file.path).is_relative_to(only)]
        return [FileResult.model_validate(file) for file in files]

    @requires("server")
    async def resume_embedding(self) -> None:
        """Go on with embedding the passages that only words find, where the end of a server has cut that short."""
        for info in await run_blocking(self.core.opened.listing):
            if info.without_vector:
                ownership = await self.reached(info.name)
                await run_blocking(partial(self._embed_later, info.name, ownership))

    def _embed_later(self, name: str, ownership: Ownership, again: bool = False) -> None:
        """Let a job embed the passages that only words find, unless there is one that will, or `again`."""
        if again or not self.core.database.read_blocking(jobs.working_on, name, "embed"):
            self._submit_blocking("embed", name, ownership, self._work_embed)

    def _work_embed(self, progress: JobProgress, name: str) -> list[FileResult]:
        """Embed what only words find, part by part: each part serves at once. Gives way to a job that waits."""
        from index.indexer import index_documents

        encoder, seconds, total = self.core.models.background_encoder(), FIRST_PART_SECONDS, 0

        def tell(step: IndexProgress) -> None:
            nonlocal total
            if step.stage == "embedding":
                total = max(total, step.total)
                progress.report(step.stage, total - step.total + step.done, total)

        while True:
            enough = partial(self._enough, progress, time.monotonic() + seconds)
            report = index_documents(
                self.core.opened.root,
                name,
                (),
                encoder,
                store=self.core.settings.index.vectors,
                progress=tell,
                cancelled=progress.cancelled,
                enough=enough,
            )
            self.core.opened.changed(name)
            if report.version:
                self.core.opened.get(name)
            if report.without_vector and progress.awaited():
                self._embed_later(name, progress.ownership, again=True)
            elif report.without_vector:
                seconds *= 2
                continue
            return []

    def _enough(self, progress: JobProgress, until: float) -> bool:
        return time.monotonic() > until or progress.awaited()

    @requires("read")
    async def documents(self, collection: str) -> list[DocumentSummary]:
        """The documents of a collection, by id. Raises NotFound."""
        opened = await self._opened(collection)

        def read() -> list[DocumentSummary]:
            return [
                DocumentSummary(**asdict(info), removable=self.core.uploads.holds(collection, Path(info.path)))
                for info in sorted(opened.documents(), key=lambda info: info.id)
            ]

        return await run_blocking(read)

    @requires("read")
    async def document(self, collection: str, document_id: str) -> DocumentText:
        """A document's text as it was indexed. Raises NotFound."""
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        return await run_blocking(lambda: document_text(opened.document(key), opened.documents()))

    @requires("read")
    async def passages(self, collection: str, document_id: str, *, offset: int = 0, limit: int = 50) -> PassagePage:
        """Passages of a document in their order, from number `offset` on. Raises NotFound."""
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        passages = await run_blocking(lambda: opened.passages(key))
        return PassagePage(data=passages[offset : offset + limit], offset=offset, total=len(passages))

    @requires("read")
    async def page_picture(self, collection: str, document_id: str, page: int, width: int) -> PagePicture:
        """A page of a PDF, so many pixels wide. Raises NotFound, InvalidRequest, Conflict or Unavailable.

        The document is looked up by its id among those of the collection: what is asked for never names a file.
        """
        key = clean(document_id, MAX_ID_CHARS, "document_id")
        if not LEAST_WIDTH <= width <= MOST_WIDTH:
            raise InvalidRequest(f"A picture is {LEAST_WIDTH} to {MOST_WIDTH} pixels wide.", param="width")
        opened = await self._opened(collection)
        file = await run_blocking(lambda: opened.source(key))
        path, digest = Path(file.path), file.fingerprint.split(" ")[0]
        if path.suffix.lower() != ".pdf":
            raise NotFound(f"{key[:200]!r} has no pages to show.", code="page_not_found", param="document_id")
        index = self.core.settings.index
        return await asyncio.to_thread(draw, path, digest, page, width, index.ocr_languages, index.max_file_mb)

    @requires("read")
    async def document_image(self, collection: str, document_id: str, name: str) -> DocumentImage:
        """An image that a document shows, by the name it has there. Raises NotFound.

        It must lie below the folder that was indexed; nothing that the document does not show can be had by its name.
        """
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        document, file = await run_blocking(lambda: (opened.document(key), opened.source(key)))
        image = (
            await asyncio.to_thread(read_image, Path(file.path), key, name) if name in shown_in(document.text) else None
        )
        if image is None:
            raise NotFound(f"{key[:200]!r} shows no image {name[:200]!r}.", code="image_not_found", param="name")
        return image

    @requires("read")
    async def places(self, collection: str, document_id: str, start: int, end: int) -> list[PageBox]:
        """Where characters of a document's text stand on its pages; nothing for one without places."""
        opened, key = await self._opened(collection), clean(document_id, MAX_ID_CHARS, "document_id")
        document = await run_blocking(lambda: opened.document(key))
        boxes = [box for section in document.sections for box in boxes_of(section.placed, start, end)]
        return [PageBox.model_validate(box) for box in boxes]


def work_of(core: ServiceCore, collection: str, payload: str) -> Work:
    """Return the work of a job that a server left to workers; it fails where it is of a plugin or version not here."""

    def work(progress: JobProgress) -> Iterable[FileResult]:
        service, method, how = json.loads(payload)
        services = {each.__name__: each for each in (CollectionService, *parts("job_services"))}
        if not method.startswith("_work_") or not hasattr(services.get(service), method):
            raise IndexingError(f"This worker has no {service}.{method}: it lacks a plugin, or is of another version.")
        done: Iterable[FileResult] = getattr(services[service](core, LOCAL), method)(progress, collection, **how)
        return done

    return work
