"""Whether the server lives, whether it can answer, how it fares in numbers, and its API keys."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, field_validator
from starlette.responses import Response

from server.access import Role
from server.api.dependencies import ERRORS, CollectionFilter, Listing, Service, StrictBody, number
from server.chat import Readiness
from server.chat.admin import KeySummary, NewKey
from server.chat.reviews import Statistics
from text.files import NAME_CHARS, NAME_PATTERN

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


keys_router = APIRouter(tags=["Access"])

WideGroup = Annotated[str, Field(pattern=rf"^\*$|{NAME_PATTERN}", max_length=NAME_CHARS)]


class KeyRequest(StrictBody):
    """A key to be made. Its role and groups are within those of whoever makes it."""

    name: str = Field(pattern=r"\w", max_length=100, description="Whose key it is, or what for.")
    role: Role = Field(
        default="reader",
        description="`visitor` asks by the widget alone, `reader` asks, `agent` also reviews, `operator` also manages.",
    )
    groups: list[WideGroup] = Field(
        default=["default"], min_length=1, max_length=100, description="`*` is every group."
    )
    expires_days: float | None = Field(default=None, gt=0, le=36500, description="None: until it is revoked.")

    _numbers = field_validator("expires_days", mode="before")(number)


@keys_router.get("/v1/keys", summary="List API keys")
async def list_keys(service: Service) -> Listing[KeySummary]:
    """Keys within your own role and groups; never the key itself."""
    return Listing(data=await service.admin.keys())


@keys_router.post("/v1/keys", status_code=201, summary="Make an API key")
async def create_key(body: KeyRequest, service: Service) -> NewKey:
    """The key itself is told this once: only a hash of it is kept."""
    return await service.admin.create_key(body.name, body.role, body.groups, body.expires_days)


@keys_router.delete("/v1/keys/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(key_id: Annotated[str, Path(description="The key's id, as listed.")], service: Service) -> None:
    """Make it useless from now on, with the sessions that began with it."""
    await service.admin.revoke_key(key_id)
