"""Whether the server lives, whether it can answer, and how it fares in numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from server.api.dependencies import ERRORS, CollectionFilter, Service
from server.chat import Readiness
from server.chat.reviews import Statistics

router = APIRouter(tags=["Operations"])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


@router.get("/health", summary="Is the server alive?")
async def health() -> Health:
    """Answers as soon as the server listens."""
    return Health()


@router.get(
    "/ready",
    summary="Would a question be answered at once?",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Something is still loading, or does not work."}},
)
async def ready(service: Service) -> JSONResponse:
    """200 once the language model and the default collection are loaded, 503 until then.

    Details are shown to operators of every group, and to everybody if no key is needed.
    """
    readiness = await service.admin.readiness()
    return JSONResponse(readiness.model_dump(mode="json"), 200 if readiness.ready else 503)


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        **ERRORS,
        200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def metrics(service: Service) -> Response:
    """Turns by stage and ending, tokens, citations dropped, the queue, errors, requests; for operators of every
    group."""
    return Response(service.admin.exposition(), media_type="text/plain; version=0.0.4")


@router.get("/v1/statistics", responses=ERRORS, summary="Turns a day, time by stage")
async def statistics(
    service: Service,
    days: Annotated[int, Query(ge=1, le=366, description="So many days, today among them (UTC).")] = 30,
    collection: CollectionFilter = "",
) -> Statistics:
    """Over the turns you may see."""
    return await service.reviews.statistics(days=days, collection=collection)
