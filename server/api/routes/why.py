"""Why a source is cited."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from server.api.dependencies import Service, StrictBody
from server.api.sse import while_connected
from server.chat import WhyView
from server.evidence.contexts import Citance

router = APIRouter(tags=["Evidence"])

_LARGEST = 2**31


class WhyRequest(StrictBody):
    """A sentence, and the document that it cites."""

    citance: str = Field(
        min_length=1, max_length=2000, description="The sentence that cites the document; markers may stay."
    )
    before: str = Field(default="", max_length=2000, description="What stands before it.")
    after: str = Field(default="", max_length=2000, description="What stands behind it.")
    document_id: str = Field(min_length=1, description="The document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")


@router.get("/v1/turns/{turn_id}/citations/{n}/why", summary="Say what of a source a citing sentence means")
async def why_cited(
    turn_id: Annotated[str, Path(min_length=1, description="A turn.")],
    n: Annotated[int, Path(ge=0, le=_LARGEST, description="The number of one of the turn's sources.")],
    request: Request,
    service: Service,
    at: Annotated[
        int, Query(ge=0, le=_LARGEST, description="Offset in the answer, where more than one sentence cites it.")
    ] = 0,
) -> WhyView:
    """At most five sentences of the source that bear on the answer's sentence, or that it does not seem to say so."""
    return await while_connected(request, service.why_of_turn(turn_id, n, at))


@router.post("/v1/why", summary="Say what of a document a sentence that cites it means")
async def why(body: WhyRequest, request: Request, service: Service) -> WhyView:
    """At most five sentences of the document that bear on the sentence, or that it does not seem to say so."""
    citance = Citance(body.citance, body.before, body.after)
    return await while_connected(request, service.why(body.collection, body.document_id, citance))
