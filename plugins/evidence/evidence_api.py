"""Quotes made readable away from their pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field, field_validator

from plugins.evidence.service import EvidenceService, StandaloneView, WhyView
from server.api.dependencies import StrictBody, number, service_of, while_connected

router = APIRouter(tags=["Evidence"])

_LARGEST = 2**31


Quotes = Annotated[EvidenceService, service_of(EvidenceService)]


class QuoteOfTurn(StrictBody):
    """Source `n` of a turn."""

    turn_id: str = Field(min_length=1, description="A turn.")
    n: int = Field(ge=0, le=_LARGEST, description="The number of one of the turn's sources.")

    _numbers = field_validator("n", mode="before")(number)


class QuoteOfDocument(StrictBody):
    """A stretch of a document's text."""

    document_id: str = Field(min_length=1, description="A document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")
    start: int = Field(default=0, ge=0, le=_LARGEST, description="First character of the document's text.")
    end: int = Field(default=0, ge=0, le=_LARGEST, description="Behind the last character.")

    _numbers = field_validator("start", "end", mode="before")(number)


@router.post("/v1/standalone", summary="Make a quote readable away from its page")
async def standalone(body: QuoteOfTurn | QuoteOfDocument, request: Request, quotes: Quotes) -> StandaloneView:
    """Add to a quote, in brackets, the context that a reader of the quote alone needs; the words of the quote stay."""
    if isinstance(body, QuoteOfTurn):
        return await while_connected(request, quotes.standalone_of_turn(body.turn_id, body.n))
    quote = quotes.standalone(body.collection, body.document_id, body.start, body.end)
    return await while_connected(request, quote)


class CitationOfTurn(QuoteOfTurn):
    """A citation of source `n` in a turn's answer."""

    at: int = Field(
        default=0, ge=0, le=_LARGEST, description="Offset in the answer, where more than one sentence cites the source."
    )

    _offsets = field_validator("at", mode="before")(number)


class CitingSentence(StrictBody):
    """A sentence, and the document that it cites."""

    citance: str = Field(
        min_length=1, max_length=2000, description="The sentence that cites the document; markers may stay."
    )
    document_id: str = Field(min_length=1, description="The document.")
    collection: str = Field(default="", description="The document's collection; empty: the default one.")


@router.post("/v1/why", summary="Say what of a document a sentence that cites it means")
async def why(body: CitationOfTurn | CitingSentence, request: Request, quotes: Quotes) -> WhyView:
    """At most five sentences of the document that bear on the sentence; none where none could be matched with it."""
    if isinstance(body, CitationOfTurn):
        return await while_connected(request, quotes.why_of_turn(body.turn_id, body.n, body.at))
    return await while_connected(request, quotes.why(body.collection, body.document_id, body.citance))
