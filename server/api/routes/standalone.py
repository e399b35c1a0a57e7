"""Quotes made readable away from their pages."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field

from server.api.dependencies import Service, StrictBody
from server.api.sse import while_connected
from server.chat import StandaloneView

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
    """What a reader of the quote alone must know, from the document, in brackets; the words of the quote stay."""
    if isinstance(body, QuoteOfTurn):
        return await while_connected(request, service.standalone_of_turn(body.turn_id, body.n, body.method))
    return await while_connected(
        request, service.standalone(body.collection, body.document_id, body.start, body.end, body.method)
    )
