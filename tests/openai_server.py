"""A server on a real port that speaks OpenAI's protocol and answers by a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.http_server import FakeHandler, ServedFake
from text.prompts import load_prompt

_USAGE = {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}


@dataclass
class FakeOpenAIServer(ServedFake):
    """`with FakeOpenAIServer() as llm:` serves at `llm.url` until the end of the block.

    Each answer is `pieces`, or what `pieces` makes of the request, with `pace` seconds between them and `silence`
    seconds before the first. After `die_after` pieces the connection is dropped; another `status` than 200 refuses.
    `raw` is streamed instead of an answer, whatever it is; one that is `deaf` takes requests and answers none. The list
    of models says by whom its own is (`owned_by`) and how long a context it has (`max_model_len`; with a small one
    answers are short). With `logprobs` each piece is a token of that log probability. Where a text is forced, what
    `forced` makes of the request is told, tokens with theirs: as vLLM tells of prompts, or as llama.cpp of grammars.
    All of it may be changed while it serves. `requests` and `headers` keep what came in; `streaming` is set once a
    piece was sent, `disconnected` when a client goes before the end.
    """

    pieces: Sequence[str] | Callable[[dict[str, Any]], Iterable[str]] = ("Parental leave ", "lasts ten ", "weeks. [1]")
    pace: float = 0.0
    silence: float = 0.0
    die_after: int | None = None
    status: int = 200
    raw: bytes = b""
    deaf: bool = False
    owned_by: str = "testing"
    max_model_len: int = 32_768
    logprobs: float | None = None
    forced: Callable[[dict[str, Any]], Sequence[tuple[str, float]]] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list, init=False)
    headers: list[dict[str, str]] = field(default_factory=list, init=False)
    streaming: threading.Event = field(default_factory=threading.Event, init=False)
    disconnected: threading.Event = field(default_factory=threading.Event, init=False)

    @property
    def url(self) -> str:
        """Where it serves, while it does."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The requests for an answer: those for a follow-up in full left out."""
        rewriting = load_prompt("rewriter.prompts", "rewrite").text
        return [request for request in self.requests if request["messages"][0]["content"] != rewriting]

    def handler(self) -> type[FakeHandler]:
        return _handler(self)


def _handler(llm: FakeOpenAIServer) -> type[FakeHandler]:
    class Handler(FakeHandler):
        def do_GET(self) -> None:
            if llm.deaf:
                with suppress(OSError):
                    self._wait(3600)
                self.close_connection = True
                return
            listed: dict[str, Any] = {"id": "fake", "object": "model", "owned_by": llm.owned_by}
            if llm.max_model_len:
                listed["max_model_len"] = llm.max_model_len
            self.answer(200, {"object": "list", "data": [listed]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            llm.requests.append(request)
            llm.headers.append({name.lower(): value for name, value in self.headers.items()})
            if llm.status != 200:
                self.answer(llm.status, {"error": {"message": "told to fail", "type": "server_error"}})
                return
            pieces = llm.pieces(request) if callable(llm.pieces) else llm.pieces
            try:
                if request.get("stream"):
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    if llm.deaf:
                        self._wait(3600)
                    elif llm.raw:
                        self._chunk(llm.raw)
                        self.wfile.write(b"0\r\n\r\n")
                    else:
                        self._stream(pieces)
                else:
                    self._wait(llm.silence)
                    message = {"role": "assistant", "content": "".join(pieces)}
                    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
                    body = {**_frame("chat.completion"), "choices": [choice], "usage": _USAGE}
                    if llm.forced and ("grammar" in request or "prompt_logprobs" in request):
                        body |= _forced(request, llm.forced(request), choice)
                    self.answer(200, body)
            except OSError:
                llm.disconnected.set()
                self.close_connection = True

        def _stream(self, pieces: Iterable[str]) -> None:
            self._wait(llm.silence)
            for n, piece in enumerate(pieces):
                if n == llm.die_after:
                    self.connection.shutdown(2)
                    self.close_connection = True
                    return
                values: dict[str, Any] = {
                    "content": [{"token": piece, "logprob": llm.logprobs, "bytes": None, "top_logprobs": []}]
                }
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                self._event({"choices": [choice if llm.logprobs is None else {**choice, "logprobs": values}]})
                llm.streaming.set()
                self._wait(llm.pace)
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self._event({"choices": [], "usage": _USAGE})
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _wait(self, seconds: float) -> None:
            """Sleep, noticing within 20 ms that the client has gone."""
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                self.connection.settimeout(min(left, 0.02))
                try:
                    if self.connection.recv(1) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    pass
                finally:
                    self.connection.settimeout(None)

        def _event(self, event: dict[str, object]) -> None:
            self._chunk(b"data: " + json.dumps({**_frame("chat.completion.chunk"), **event}).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    return Handler


def _forced(request: dict[str, Any], tokens: Sequence[tuple[str, float]], choice: dict[str, Any]) -> dict[str, Any]:
    """The log probabilities of a forced text, as the server that understands this request tells them."""
    if "prompt_logprobs" in request:
        logprobs = [None, {"5": {"logprob": -9.0, "rank": 7, "decoded_token": "assistant\n"}}]
        entries = ({str(n): {"logprob": p, "rank": 1, "decoded_token": text}} for n, (text, p) in enumerate(tokens))
        return {"prompt_logprobs": [*logprobs, *entries]}
    prompts: list[Any] = [
        {"token": text, "logprob": p, "bytes": None, "top_logprobs": []} for text, p in (*tokens, ("", -1.9))
    ]
    return {"choices": [{**choice, "logprobs": {"content": prompts}}]}


def _frame(kind: str) -> dict[str, object]:
    return {"id": "x", "object": kind, "created": 1, "model": "fake"}
