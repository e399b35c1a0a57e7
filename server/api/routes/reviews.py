"""Reviews: turns in the order of doubt, what people make of them, and what follows from that as a file."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from server.api.dependencies import JSON_LINES, Service, attachment
from server.chat import Doubt, NewReview, ReviewDetail, ReviewPage, ReviewState
from text.names import NAME_CHARS

router = APIRouter(tags=["Reviews"])

TurnId = Annotated[str, Path(description="The turn's id.")]
Of = Annotated[str, Query(description="Only turns over this collection.", max_length=NAME_CHARS)]


@router.get("/v1/reviews", summary="List turns to review")
async def list_reviews(
    service: Service,
    state: Annotated[ReviewState, Query(description="Those that wait, or those that were reviewed.")] = "open",
    doubt: Annotated[Doubt | None, Query(description="Only turns against which this speaks.")] = None,
    collection: Of = "",
    query: Annotated[str, Query(description="Words of the question.", max_length=400)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> ReviewPage:
    """The newest 5,000 turns, most doubtful first; reviewed ones in the order of that."""
    return await service.reviews.listing(
        state=state, doubt=doubt, collection=collection, query=query, limit=limit, offset=offset
    )


@router.get(
    "/v1/reviews/export",
    summary="Export what was reviewed",
    response_class=Response,
    responses={200: {"description": "One conversation a line.", "content": JSON_LINES}},
)
async def export_reviews(service: Service, collection: Of = "") -> Response:
    """Reviewed conversations as JSON lines: pairs to train on, and a set of questions that quote their evidence."""
    lines = [dialog.line() for dialog in await service.reviews.dialogs(collection)]
    return attachment("".join(lines), "application/x-ndjson", "reviewed.jsonl")


@router.get("/v1/reviews/{turn_id}", summary="Read a turn to review")
async def read_review(turn_id: TurnId, service: Service) -> ReviewDetail:
    """The turn, what was said before it, and all that was ever made of it."""
    return await service.reviews.get(turn_id)


@router.post("/v1/reviews/{turn_id}", status_code=201, summary="Review a turn")
async def give_review(turn_id: TurnId, body: NewReview, service: Service) -> ReviewDetail:
    """Say what is right. Every word is a row of its own; what was not said stays as it was."""
    return await service.reviews.give(turn_id, body)


@router.post("/v1/reviews/{turn_id}/undo", status_code=201, summary="Take back the last review")
async def undo_review(turn_id: TurnId, service: Service) -> ReviewDetail:
    """Take back what was said last, by a further row."""
    return await service.reviews.undo(turn_id)
