"""FastAPI dependencies of the endpoints."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from server.chat import ChatService
from text.names import NAME_CHARS, NAME_PATTERN


async def _service(request: Request) -> ChatService:
    """The service as whoever sent the request may use it: the only one there is for a route."""
    # A plain function would be called in a thread, for every request.
    return cast("ChatService", request.app.state.service).as_principal(request.scope["state"]["principal"])


Service = Annotated[ChatService, Depends(_service)]

CollectionName = Annotated[
    str, Path(description="The collection's name.", examples=["docs"], pattern=NAME_PATTERN, max_length=NAME_CHARS)
]
ConversationId = Annotated[str, Path(description="The conversation's id.")]


class StrictBody(BaseModel):
    """A request body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


JSON_LINES: dict[str, Any] = {"application/x-ndjson": {"schema": {"type": "string"}}}


def attachment(text: str, media_type: str, name: str) -> Response:
    """A text as a file to be saved."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)
