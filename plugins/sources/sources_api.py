"""Sources: places whose documents a collection follows, and documents that programs push."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from plugins.sources.service import PushedDocument, SourceService, SourceSummary
from plugins.sources.source import Source
from server.api.dependencies import Listing, service_of
from server.store.records import Job
from text.files import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Sources"])

SourceName = Annotated[str, Path(description="The source's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]
Key = Annotated[str, Path(description="What the program calls the document; it may contain slashes.")]


Sources = Annotated[SourceService, service_of(SourceService)]


@router.get("/v1/sources", summary="List sources")
async def list_sources(sources: Sources) -> Listing[SourceSummary]:
    """Every source with its schedule, and how the last run ended."""
    return Listing(data=await sources.sources())


@router.post("/v1/sources", status_code=201, summary="Add a source")
async def add_source(body: Source, sources: Sources) -> SourceSummary:
    """Follow a source; it is read for the first time at once."""
    return await sources.add(body)


@router.get("/v1/sources/{source}", summary="Show a source")
async def show_source(source: SourceName, sources: Sources) -> SourceSummary:
    """One source, with the status and error of each document."""
    return await sources.source(source)


@router.post("/v1/sources/{source}/sync", status_code=202, summary="Read a source")
async def sync_source(
    source: SourceName,
    sources: Sources,
    dry_run: Annotated[bool, Query(description="Only say what has changed.")] = False,
) -> Job:
    """Read it now and bring its collection up to date, in the background."""
    return await sources.sync(source, dry_run=dry_run)


@router.delete("/v1/sources/{source}", status_code=202, summary="Remove a source")
async def remove_source(source: SourceName, sources: Sources) -> Job:
    """Take it away with its documents, in the background."""
    return await sources.remove(source)


@router.put("/v1/sources/{source}/documents/{key:path}", status_code=202, summary="Push a document")
async def push_document(source: SourceName, key: Key, body: PushedDocument, sources: Sources) -> Job:
    """Keep a document in place of the one that was pushed under its key, and index it in the background."""
    return await sources.push(source, key, body)


@router.delete("/v1/sources/{source}/documents/{key:path}", status_code=202, summary="Delete a pushed document")
async def delete_pushed(source: SourceName, key: Key, sources: Sources) -> Job:
    """Delete what was pushed under this key."""
    return await sources.push(source, key, None)
