"""Searching as a turn does."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from index.query import Where
from server.api.dependencies import Service, StrictBody
from server.api.sse import while_connected
from server.chat import Message, SearchResult

router = APIRouter(tags=["Search"])


class HistoryMessage(BaseModel):
    """Something said before the question."""

    role: Literal["user", "assistant"]
    text: str


class SearchRequest(StrictBody):
    """A question, and what was said before it."""

    query: str = Field(description="The question as typed.", min_length=1, pattern=r"\S")
    collection: str = Field(default="", description="Empty: the default collection.")
    history: list[HistoryMessage] = Field(default=[], description="Oldest first.")
    k: int = Field(default=10, ge=1, le=200, description="Passages wanted.")
    where: Where | None = Field(default=None, description="Only passages whose metadata has these values.")
    search_for: str | None = Field(default=None, description="Search for this instead of the rewritten question.")


@router.post("/v1/search", summary="Search a collection as a chat turn would")
async def search(body: SearchRequest, request: Request, service: Service) -> SearchResult:
    """Rewrite, search with every leg, fuse and rerank; best first, with the rank each search gave."""
    return await while_connected(
        request,
        service.turns.search(
            body.query,
            collection=body.collection,
            history=[Message(message.role, message.text) for message in body.history],
            k=body.k,
            where=body.where,
            search_for=body.search_for,
        ),
    )
