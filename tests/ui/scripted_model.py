"""An OpenAI-compatible server whose answers are written beforehand: it streams them word by word.

`[[some words]]` in an answer becomes the number of the passage of the prompt that holds these words, as
a model would cite it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

_PASSAGE = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_QUESTION = re.compile(r"^Question: (.*)$", re.MULTILINE)


class ScriptedModel:
    """`answers` maps words of a question to its answer; the first key found decides."""

    def __init__(self, answers: dict[str, str], pause: float = 0.01) -> None:
        self.answers = answers
        self.pause = pause
        self.questions: list[str] = []
        self.hung_up = 0
        self.app = FastAPI()
        self.app.get("/v1/models")(self.models)
        self.app.post("/v1/chat/completions")(self.complete)

    async def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]}

    async def complete(self, request: Request) -> Any:
        body = await request.json()
        prompt = str(body["messages"][-1]["content"])
        found = _QUESTION.search(prompt)
        question = found[1] if found else prompt
        self.questions.append(question)
        answer = self._cite(
            prompt, next((text for key, text in self.answers.items() if key in question), "<cannot_answer>")
        )
        if not body.get("stream"):
            return {**_frame("chat.completion"), "choices": [_choice("message", answer, "stop")], "usage": _USAGE}
        return StreamingResponse(self._stream(answer), media_type="text/event-stream")

    @staticmethod
    def _cite(prompt: str, answer: str) -> str:
        numbers = [(found.start(), found[1]) for found in _PASSAGE.finditer(prompt)]

        def number(found: re.Match[str]) -> str:
            at = prompt.find(found[1])
            return next((f"[{n}]" for start, n in reversed(numbers) if start < at), "[99]")

        return re.sub(r"\[\[(.+?)\]\]", number, answer)

    async def _stream(self, answer: str) -> AsyncIterator[str]:
        try:
            for piece in re.findall(r"\S+\s*", answer):
                await asyncio.sleep(self.pause)
                yield _event("chat.completion.chunk", [_choice("delta", piece, None)])
            yield _event("chat.completion.chunk", [_choice("delta", "", "stop")])
            yield "data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.hung_up += 1
            raise


_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": int(time.time()), "model": "scripted"}


def _choice(part: str, text: str, reason: str | None) -> dict[str, Any]:
    return {"index": 0, part: {"role": "assistant", "content": text}, "finish_reason": reason}


def _event(kind: str, choices: list[dict[str, Any]]) -> str:
    return f"data: {json.dumps({**_frame(kind), 'choices': choices})}\n\n"
