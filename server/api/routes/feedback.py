"""Giving, retracting and exporting feedback."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from server.api.dependencies import JSON_LINES, Service, StrictBody, attachment
from server.chat import Feedback, FeedbackRecord, Rating

router = APIRouter(tags=["Feedback"])


class NewFeedback(StrictBody):
    """A person's word on a turn; it replaces an earlier one."""

    turn_id: str
    rating: Rating
    reason: str = Field(default="", max_length=200, description="A short reason, such as one of the page's choices.")
    comment: str = Field(default="", max_length=4000)


class FeedbackList(BaseModel):
    """All feedback, oldest first."""

    data: list[FeedbackRecord]


@router.post("/v1/feedback", status_code=201, summary="Rate a turn")
async def give_feedback(body: NewFeedback, service: Service) -> Feedback:
    """Keep a rating with its reason and comment."""
    return await service.turns.give_feedback(body.turn_id, body.rating, body.reason, body.comment)


@router.get("/v1/feedback", summary="List feedback")
async def list_feedback(service: Service) -> FeedbackList:
    """Every rating with its question and answer."""
    return FeedbackList(data=await service.turns.feedback_records())


@router.get(
    "/v1/feedback/export",
    summary="Export feedback",
    response_class=Response,
    responses={200: {"description": "One JSON object a line.", "content": JSON_LINES}},
)
async def export_feedback(service: Service) -> Response:
    """Every rating with its question and answer, as JSON lines."""
    lines = [record.model_dump_json() + "\n" for record in await service.turns.feedback_records()]
    return attachment("".join(lines), "application/x-ndjson", "feedback.jsonl")


@router.delete("/v1/feedback/{turn_id}", status_code=204, summary="Retract a rating")
async def retract_feedback(
    turn_id: Annotated[str, Path(description="The turn that was rated.")], service: Service
) -> None:
    """Forget what was thought of a turn."""
    await service.turns.retract_feedback(turn_id)
