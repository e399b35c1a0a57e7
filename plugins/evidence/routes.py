"""Quotes made readable away from their pages."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from plugins.evidence.explain import Citance
from plugins.evidence.service import EvidenceService
from plugins.evidence.views import StandaloneView, WhyView
from server.api.dependencies import Service, StrictBody
from server.api.sse import while_connected

router = APIRouter(tags=["Evidence"])

_LARGEST = 2**31


class _Quote(StrictBody):
    method: Literal["insert", "prompted"] = Field(
        default="insert", description="`prompted`: let the model rewrite freely, where the guard lets it."
    )


class QuoteOfTurn(_Quote):
    """Source `n` of a turn."""

    turn_id: str = Field(min_length=1, description="A turn.")
    n: int = Field(ge=0, le=_LARGEST, description="The number of one of the turn's sources.")


class QuoteOfDocument(_Quote):
    """A stretch of a document's text."""

    document_id: str = Field(min_length=1, description="A document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")
    start: int = Field(default=0, ge=0, le=_LARGEST, description="First character of the document's text.")
    end: int = Field(default=0, ge=0, le=_LARGEST, description="Behind the last character.")


@router.post("/v1/standalone", summary="Make a quote readable away from its page")
async def standalone(body: QuoteOfTurn | QuoteOfDocument, request: Request, service: Service) -> StandaloneView:
    """Add to a quote, in brackets, the context that a reader of the quote alone needs; the words of the quote stay."""
    if isinstance(body, QuoteOfTurn):
        return await while_connected(
            request, EvidenceService(service).standalone_of_turn(body.turn_id, body.n, body.method)
        )
    return await while_connected(
        request,
        EvidenceService(service).standalone(body.collection, body.document_id, body.start, body.end, body.method),
    )


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
    return await while_connected(request, EvidenceService(service).why_of_turn(turn_id, n, at))


@router.post("/v1/why", summary="Say what of a document a sentence that cites it means")
async def why(body: WhyRequest, request: Request, service: Service) -> WhyView:
    """At most five sentences of the document that bear on the sentence, or that it does not seem to say so."""
    citance = Citance(body.citance, body.before, body.after)
    return await while_connected(request, EvidenceService(service).why(body.collection, body.document_id, citance))
