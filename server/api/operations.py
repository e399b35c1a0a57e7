"""For those who run a server: whether it lives and answers, its numbers, turns to review, and runs of a terminal."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from server.api.dependencies import ERRORS, CollectionFilter, Service, StrictBody
from server.chat import Readiness, RunGroup
from server.chat.reviews import NewReview, ReviewDetail, ReviewPage, Statistics
from server.runs import RunDetail, RunSummary
from server.store.reviewed import Doubt, ReviewState
from text.files import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Operations"])
reviews_router = APIRouter(tags=["Reviews"])
runs_router = APIRouter(tags=["Runs"])


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


TurnId = Annotated[str, Path(description="The turn's id.")]
RunName = Annotated[str, Path(description="The run's name.", pattern=NAME_PATTERN, max_length=NAME_CHARS)]


@reviews_router.get("/v1/reviews", summary="List turns to review")
async def list_reviews(
    service: Service,
    state: Annotated[ReviewState, Query(description="Those that wait, or those that were reviewed.")] = "open",
    doubt: Annotated[Doubt | None, Query(description="Only turns against which this speaks.")] = None,
    collection: CollectionFilter = "",
    query: Annotated[str, Query(description="Words of the question.", max_length=400)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> ReviewPage:
    """The newest 5,000 turns, most doubtful first; reviewed ones in the order of that."""
    return await service.reviews.listing(
        state=state, doubt=doubt, collection=collection, query=query, limit=limit, offset=offset
    )


@reviews_router.get("/v1/reviews/{turn_id}", summary="Read a turn to review")
async def read_review(turn_id: TurnId, service: Service) -> ReviewDetail:
    """The turn, what was said before it, and all that was ever made of it."""
    return await service.reviews.get(turn_id)


@reviews_router.post("/v1/reviews/{turn_id}", status_code=201, summary="Review a turn")
async def give_review(turn_id: TurnId, body: NewReview, service: Service) -> ReviewDetail:
    """Say what is right. Every word is a row of its own; what was not said stays as it was.

    The verdict `undone` takes back what was said last, by a further row.
    """
    return await service.reviews.give(turn_id, body)


class RunList(BaseModel):
    """Runs, the newest first, and the command of each group that starts one in a terminal."""

    data: list[RunSummary]
    commands: dict[RunGroup, str]


class RunToPromote(StrictBody):
    """A trained run that is to serve."""

    name: str = Field(max_length=NAME_CHARS, description="The run; an empty text brings back what served before.")


class Promotion(BaseModel):
    """The run that serves now, and the one that served before."""

    serves: str
    instead_of: str = ""


@runs_router.get("/v1/runs", summary="List runs")
async def list_runs(service: Service) -> RunList:
    """Every run of the home with its progress, and the commands that start further ones."""
    return RunList(data=await service.admin.runs(), commands=await service.admin.run_commands())


@runs_router.get("/v1/runs/{group}/{name}", summary="Show a run")
async def show_run(group: RunGroup, name: RunName, service: Service) -> RunDetail:
    """Its progress, figures and tables."""
    return await service.admin.run(group, name)


@runs_router.post("/v1/runs/promote", summary="Promote a rewriter, or undo the last promotion")
async def promote_run(body: RunToPromote, service: Service) -> Promotion:
    """Make a trained rewriter serve from the next turn on, once it was opened and asked."""
    other = await service.admin.promote_run(body.name)
    return Promotion(serves=body.name, instead_of=other) if body.name else Promotion(serves=other)
