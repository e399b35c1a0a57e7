"""Sources: places whose documents a collection follows, and documents that programs push."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from server.api.dependencies import Service
from server.chat import Job, PushedDocument, Source, SourceSummary
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Sources"])

SourceName = Annotated[str, Path(description="The source's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]
Key = Annotated[str, Path(description="What the program calls the document; it may contain slashes.")]


class SourceList(BaseModel):
    """Sources, by name, without their documents."""

    data: list[SourceSummary]


@router.get("/v1/sources", summary="List sources")
async def list_sources(service: Service) -> SourceList:
    """Every source with its schedule, and how the last run ended."""
    return SourceList(data=await service.sources())


@router.post("/v1/sources", status_code=201, summary="Add a source")
async def add_source(body: Source, service: Service) -> SourceSummary:
    """Follow a source; it is read for the first time at once."""
    return await service.add_source(body)


@router.get("/v1/sources/{source}", summary="Show a source")
async def show_source(source: SourceName, service: Service) -> SourceSummary:
    """One source, with the status and error of each document."""
    return await service.source(source)


@router.post("/v1/sources/{source}/sync", status_code=202, summary="Read a source")
async def sync_source(
    source: SourceName,
    service: Service,
    dry_run: Annotated[bool, Query(description="Only say what has changed.")] = False,
) -> Job:
    """Read it now and bring its collection up to date, in the background."""
    return await service.sync_source(source, dry_run=dry_run)


@router.delete("/v1/sources/{source}", status_code=202, summary="Remove a source")
async def remove_source(source: SourceName, service: Service) -> Job:
    """Take it away with its documents, in the background."""
    return await service.remove_source(source)


@router.put("/v1/sources/{source}/documents/{key:path}", status_code=202, summary="Push a document")
async def push_document(source: SourceName, key: Key, body: PushedDocument, service: Service) -> Job:
    """Keep a document in place of the one that was pushed under its key, and index it in the background."""
    return await service.push(source, key, body)


@router.delete("/v1/sources/{source}/documents/{key:path}", status_code=202, summary="Delete a pushed document")
async def delete_pushed(source: SourceName, key: Key, service: Service) -> Job:
    """Delete what was pushed under this key."""
    return await service.push(source, key, None)
