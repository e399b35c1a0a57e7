"""Search, ask (also as a stream) and manage documents over the HTTP API of an Anaphora server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict
from urllib.parse import quote

import httpx


class ApiError(Exception):
    """Raised for a refusal or failure reported by the server: `code` is a stable name for programs, `status` HTTP's."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


Where = Mapping[str, str | int | float | bool | Sequence[str | int | float | bool]]
"""Values that the metadata of passages must have; of a list, any one."""


class Message(TypedDict):
    """A message before the question."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage: `text` is `[start, end)` of its document's characters. An answer cites it by `n`.

    `url` opens the source of a cited one at the sentence that was cited first, where the source has an address.
    """

    n: int
    document_id: str
    title: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int
    text: str
    score: float
    url: str = ""


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """A whole answer. `status` is `answered`, `quoted`, `asked` or `refused`; `sources` are the passages that it cites.

    `asked` is a question back: `alternatives` holds what may be meant. Any of these texts, its number or an answer in
    free words is understood as the reply where the question and `text` are the last words of the `history`.
    """

    text: str
    status: str
    sources: tuple[FoundPassage, ...]
    turn_id: str
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection that may be asked."""

    name: str
    documents: int
    passages: int


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document of a collection."""

    id: str
    title: str
    format: str


class AnaphoraClient:
    """Connect to the server at `url`; `with` closes the connection.

    `key` is an API key (none where the server wants none), `seconds` the longest wait for an answer. Every method may
    raise ApiError, or httpx.HTTPError where the server is not reached.

    >>> with AnaphoraClient("http://127.0.0.1:7860") as client:  # doctest: +SKIP
    ...     print(client.ask("How long is parental leave?", collection="docs").text)
    Parental leave lasts ten weeks. [1]
    """

    def __init__(self, url: str = "http://127.0.0.1:7860", key: str = "", *, seconds: float = 300.0) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(10.0, read=seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._http.close()

    def search(
        self,
        question: str,
        *,
        collection: str = "",
        history: Sequence[Message] = (),
        k: int = 10,
        where: Where | None = None,
    ) -> list[FoundPassage]:
        """Return the best `k` passages (at most 200), as a chat turn would find them.

        An empty `collection` is the server's default. `history` holds the messages before the question, oldest first.
        """
        messages = [{"role": message["role"], "text": message["content"]} for message in history]
        body = {"query": question, "collection": collection, "history": messages, "k": k, "where": where}
        return [_passage(passage) for passage in self._json("POST", "/v1/search", json=body)["passages"]]

    def ask(
        self, question: str, *, collection: str = "", history: Sequence[Message] = (), where: Where | None = None
    ) -> ClientAnswer:
        """Return the answer to a question that follows the messages of `history`."""
        whole = self._json("POST", "/v1/chat/completions", json=_completion(question, collection, history, where))
        return _answer(whole["choices"][0]["message"]["content"], whole["anaphora"])

    def stream(
        self, question: str, *, collection: str = "", history: Sequence[Message] = (), where: Where | None = None
    ) -> Iterator[str | ClientAnswer]:
        """Yield the pieces of the answer as they come, and at the end the whole of it."""
        body = {**_completion(question, collection, history, where), "stream": True}
        pieces: list[str] = []
        with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            _demand(response)
            for line in response.iter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line.removeprefix("data: "))
                if "error" in chunk:
                    raise _error(503, chunk)
                for choice in chunk["choices"]:
                    if piece := choice["delta"].get("content"):
                        pieces.append(piece)
                        yield piece
                if chunk.get("anaphora"):
                    yield _answer("".join(pieces), chunk["anaphora"])

    def collections(self) -> list[CollectionRow]:
        """Return the collections that this key sees."""
        rows = self._json("GET", "/v1/collections")["data"]
        return [CollectionRow(row["name"], row["documents"], row["passages"]) for row in rows]

    def documents(self, collection: str) -> list[DocumentRow]:
        """Return the documents of a collection."""
        rows = self._json("GET", f"/v1/collections/{quote(collection)}/documents")["data"]
        return [DocumentRow(row["id"], row["title"], row["format"]) for row in rows]

    def document(self, collection: str, document_id: str) -> str:
        """Return a document's text; `start` and `end` of a passage count its characters."""
        place = f"/v1/collections/{quote(collection)}/documents/{quote(document_id)}"
        return str(self._json("GET", place)["text"])

    def upload(self, collection: str, file: Path) -> str:
        """Add a file to a collection; return the id of the job that indexes it (`job`)."""
        with file.open("rb") as content:
            place = f"/v1/collections/{quote(collection)}/documents"
            return str(self._json("POST", place, files={"file": (file.name, content)})["id"])

    def job(self, job_id: str) -> str:
        """Return the state of a job: queued, running, done, failed, cancelled or interrupted."""
        return str(self._json("GET", f"/v1/jobs/{quote(job_id)}")["state"])

    def _json(self, method: str, path: str, **more: Any) -> Any:
        response = self._http.request(method, path, **more)
        _demand(response)
        return response.json()


def _completion(question: str, collection: str, history: Sequence[Message], where: Where | None) -> dict[str, Any]:
    body = {"model": collection, "messages": [*history, {"role": "user", "content": question}]}
    return {**body, "anaphora": {"where": where}} if where else body


def _passage(passage: dict[str, Any], url: str = "") -> FoundPassage:
    fields = {name: value for name, value in passage.items() if name in FoundPassage.__slots__}
    return FoundPassage(**{**fields, "heading": tuple(passage["heading"]), "url": url})


def _answer(text: str, details: dict[str, Any]) -> ClientAnswer:
    cited = {citation["n"]: citation["url"] for citation in reversed(details["citations"])}
    sources = tuple(_passage(passage, cited[passage["n"]]) for passage in details["evidence"] if passage["n"] in cited)
    alternatives = tuple(alternative["text"] for alternative in details["alternatives"])
    return ClientAnswer(text, details["status"], sources, details["turn_id"], alternatives)


def _demand(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    try:
        body = response.json()
    except ValueError:
        body = {}
    raise _error(response.status_code, body)


def _error(status: int, body: Any) -> ApiError:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ApiError(status, f"The server answered with HTTP {status}.")
    return ApiError(status, str(error.get("message")), str(error.get("code") or ""))
