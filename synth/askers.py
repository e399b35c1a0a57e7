"""Asking a chat model directly, with bounded concurrency.

The model is handed in; whether it is a local engine, vLLM or a hosted server makes no difference here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from synth.tasks import BadResponses, Journal, ModelFailed, ModelReply, Pending, Record, Sampling
from text.files import text_writer
from text.recorder import Call, Recording, call

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk


URL = "/v1/chat/completions"


class BatchAsker:
    """Writes what is pending to `path`, and answers nothing. `written` counts requests."""

    def __init__(self, path: Path, sampling: Sampling) -> None:
        self._path = path
        self._sampling = sampling
        self.written = 0

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        with text_writer(self._path) as file:
            for task in pending:
                file.write(json.dumps(self._request(task), ensure_ascii=True) + "\n")
        self.written = len(pending)

    def _request(self, task: Pending[Any]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._sampling.model,
            "messages": task.messages(),
            "max_tokens": task.task.max_tokens,
            "temperature": self._sampling.temperature,
            "seed": self._sampling.seed,
        }
        body["response_format"] = task.task.response_format()
        return {"custom_id": f"{task.key}-{task.attempt}", "method": "POST", "url": URL, "body": body}


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
        message = error.get("message") if isinstance(error, dict) else None
        return ModelReply(**common, finish="error", error=" ".join(str(message or error).split())[:300])
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


CONCURRENCY = 8
CALL_SECONDS = 1800.0
"""Longest single answer; a server that sends nothing for longer is one that failed."""
_WAIT_SECONDS = (1.0, 5.0, 20.0)


@dataclass
class ChatAsker:
    """Asks `model` up to `concurrency` things at once. Use it in `with`.

    `stop` is asked before each question; once it says True nothing new is asked and the run pauses. The calls that each
    item took are added to the file `traces` as a line of JSON, with texts where `content` says so.
    """

    model: BaseChatModel
    sampling: Sampling
    _: KW_ONLY
    concurrency: int = CONCURRENCY
    stop: Callable[[], bool] = lambda: False
    waits: Sequence[float] = _WAIT_SECONDS
    traces: Path | None = None
    content: bool = True

    def __post_init__(self) -> None:
        # Given up where the server refuses a schema.
        self._schema = True
        # One loop for all steps: the clients of a chat model keep connections that belong to a loop.
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        """Ask until every item is settled or `stop` says so. Raises ModelFailed."""
        self._runner.run(self._ask_all(deque(pending), record))

    async def _ask_all(self, queue: deque[Pending[Any]], record: Record) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(queue))):
                    group.create_task(self._work(queue, record))
        except* ModelFailed as failures:
            raise failures.exceptions[0] from None

    async def _work(self, queue: deque[Pending[Any]], record: Record) -> None:
        while queue and not self.stop():
            first = queue.popleft()
            task: Pending[Any] | None = first
            recording = Recording(first.task.step, content=self.content)
            try:
                with recording.root:
                    while task is not None and not self.stop():
                        task = record(task, await self._answer(task))
            finally:
                self._keep(first, recording)

    def _keep(self, task: Pending[Any], recording: Recording) -> None:
        if self.traces is not None and len(recording.spans) > 1:
            line = {"step": task.task.step, "item": task.task.item, "key": task.key, "calls": recording.calls()}
            with self.traces.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    async def _answer(self, task: Pending[Any]) -> ModelReply:
        """One answer; a server that is away for a moment is asked again. Raises ModelFailed."""
        for wait in (*self.waits, None):
            try:
                return await self._call(task)
            except transient_errors() as error:
                if wait is None:
                    raise ModelFailed(
                        f"The language model cannot be reached ({_short(error)}). What it answered is kept: "
                        "run the same command again when it is back."
                    ) from error
                await asyncio.sleep(wait)
            except model_errors() as error:
                if self._schema and _complains_of_schema(error):
                    self._schema = False
                    return await self._answer(task)
                return task.answer(finish="error", error=_short(error))
        raise AssertionError("the last wait is None")

    async def _call(self, task: Pending[Any]) -> ModelReply:
        with call("ask") as this:
            if task.before is not None:
                this.label(attempt=task.attempt, before=task.before.verdict)
            answer = await self._asked(task, this)
            this.label(finish=answer.finish, tokens_in=answer.tokens_in, tokens_out=answer.tokens_out)
            this.output(answer.text)
            return answer

    async def _asked(self, task: Pending[Any], this: Call) -> ModelReply:
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
        from openai import LengthFinishReasonError

        kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
        messages = [kinds[message["role"]](message["content"]) for message in task.messages()]
        options: dict[str, Any] = {
            "max_tokens": task.task.max_tokens,
            "temperature": self.sampling.temperature,
            "seed": self.sampling.seed,
        }
        this.label(**options)
        this.prompt((message["role"], message["content"]) for message in task.messages())
        if self._schema:
            options["response_format"] = task.task.response_format()
        began = time.monotonic()
        text, finish, refusal = "", "stop", ""
        tokens_in = tokens_out = 0
        async with asyncio.timeout(CALL_SECONDS):
            stream = cast("AsyncGenerator[AIMessageChunk, None]", self.model.astream(messages, **options))
            try:
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        text += chunk.text
                        finish = str(chunk.response_metadata.get("finish_reason") or finish)
                        refusal += str(chunk.additional_kwargs.get("refusal") or "")
                        if chunk.usage_metadata:
                            tokens_in += chunk.usage_metadata["input_tokens"]
                            tokens_out += chunk.usage_metadata["output_tokens"]
            except LengthFinishReasonError as error:
                # The client will not read an answer held to a schema that was cut. Its beginning may be of use.
                finish = "length"
                if usage := error.completion.usage:
                    tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
        if refusal:
            text, finish = refusal, "refusal"
        return task.answer(
            text=text,
            finish=finish,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            seconds=round(time.monotonic() - began, 3),
            at=round(time.time(), 3),
        )


def transient_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions for a server that is away or busy, as opposed to a bad request."""
    import httpx
    from openai import APIConnectionError, InternalServerError, RateLimitError

    return (
        APIConnectionError,
        InternalServerError,
        RateLimitError,
        httpx.TransportError,
        TimeoutError,
        ConnectionError,
    )


def model_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions a chat model raises about one question."""
    from langchain_core.exceptions import LangChainException
    from openai import OpenAIError

    return (OpenAIError, LangChainException, ValueError, RuntimeError)


def _complains_of_schema(error: Exception) -> bool:
    text = str(error).casefold()
    return any(word in text for word in ("response_format", "json_schema", "schema", "grammar", "structured"))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
