"""Asking through files in OpenAI's batch format, which hosted batch APIs and `vllm run-batch` read.

Requests go out as one JSON object a line (`custom_id`, `method`, `url`, `body`); responses come back the same way
and in any order. Nothing is asked while a file is out: the run pauses, and goes on when it is given the responses.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synth.errors import BadResponses
from synth.running.journal import Journal
from synth.running.settling import Pending, Record
from synth.running.tasks import ModelReply, Sampling
from text.files import text_writer

URL = "/v1/chat/completions"


class BatchAsker:
    """Writes what is pending to `path`, if there is one, and answers nothing. `written` counts requests."""

    def __init__(self, path: Path | None, sampling: Sampling, *, schema: bool = True) -> None:
        self._path = path
        self._sampling = sampling
        self._schema = schema
        self.written = 0

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        if self._path is None:
            return
        with text_writer(self._path) as file:
            for asked in pending:
                file.write(json.dumps(self._request(asked), ensure_ascii=True) + "\n")
        self.written = len(pending)

    def _request(self, asked: Pending[Any]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._sampling.model,
            "messages": asked.messages(),
            "max_tokens": asked.task.max_tokens,
            "temperature": self._sampling.temperature,
            "seed": self._sampling.seed,
        }
        if self._schema:
            body["response_format"] = asked.task.response_format()
        return {"custom_id": f"{asked.key}-{asked.attempt}", "method": "POST", "url": URL, "body": body}


def read_responses(path: Path, journal: Journal) -> set[str]:
    """Take the answers of a file of responses into the journal; returns the keys they are for.

    An answer that is there already is not taken twice. Raises BadResponses naming the line that is none; what
    stood before it is kept.
    """
    keys: set[str] = set()
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                answer = _answer(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                raise BadResponses(
                    f"{path}, line {number} is no batch response ({type(error).__name__}: {error}); "
                    "give the file that the batch service or `vllm run-batch` wrote."
                ) from error
            journal.add(answer)
            keys.add(answer.key)
    return keys


def _answer(row: Any) -> ModelReply:
    key, _, attempt = row["custom_id"].rpartition("-")
    if not key:
        raise ValueError(f"custom_id {row['custom_id']!r} is not one of ours")
    common = {"key": key, "attempt": int(attempt), "step": "", "item": ""}
    response = row.get("response") or {}
    body = response.get("body") or {}
    status = int(response.get("status_code") or 200)
    if row.get("error") or status >= 400 or "choices" not in body:
        error = row.get("error") or body.get("error") or body or f"status {status}"
        return ModelReply(**common, finish="error", error=_message(error))
    choice = body["choices"][0]
    message = choice["message"]
    usage = body.get("usage") or {}
    refusal = message.get("refusal") or ""
    return ModelReply(
        **common,
        text=str(refusal or message.get("content") or ""),
        finish="refusal" if refusal else str(choice.get("finish_reason") or "stop"),
        tokens_in=int(usage.get("prompt_tokens") or 0),
        tokens_out=int(usage.get("completion_tokens") or 0),
    )


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    return " ".join(str(message or error).split())[:300]
