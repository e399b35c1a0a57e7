"""The endpoint of chat completions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from server.api.chat_completions.protocol import Completion, CompletionRequest
from server.api.chat_completions.serving import Writer, turn_request
from server.api.dependencies import Service
from server.api.disconnect import while_connected
from server.api.sse import EVENTS, TurnStream

router = APIRouter(tags=["OpenAI"])


@router.post(
    "/v1/chat/completions",
    summary="Answer a conversation",
    response_model=Completion,
    responses={
        200: {
            "description": "The answer: one object, or with `stream` server-sent events of chunks ending in `[DONE]`. "
            'An error after the stream has begun is an event `{"error": …}`.',
            "content": {"text/event-stream": {**EVENTS, "x-chunk": "Chunk"}},
        }
    },
)
async def complete(body: CompletionRequest, request: Request, service: Service) -> Completion | Response:
    """Answer the last message from a collection, in the light of the messages before it."""
    turn = await service.begin(turn_request(body, service.settings.server.max_history_turns))
    writer = Writer(turn, body)
    if body.stream:
        return TurnStream(turn, writer.chunks())
    try:
        return await while_connected(request, writer.whole())
    finally:
        await turn.aclose()
