"""How the server fares, in numbers over what is stored."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from server.api.dependencies import Service
from server.chat import Statistics
from text.names import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Operations"])


@router.get("/v1/statistics", summary="Turns a day, time by stage, what found nothing")
async def statistics(
    service: Service,
    days: Annotated[int, Query(ge=1, le=366, description="So many days, today among them (UTC).")] = 30,
    collection: Annotated[
        str | None, Query(description="Only turns over this collection.", pattern=NAME_PATTERN, max_length=NAME_CHARS)
    ] = None,
) -> Statistics:
    """Over the turns you may see. Questions are shown where texts are recorded (`trace.content`)."""
    return await service.reviews.statistics(days=days, collection=collection or "")
