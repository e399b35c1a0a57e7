"""A place that is read by an API of JSON: a list with a version of each document, and each document that changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape, unescape
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from plugins.sources.fetcher import FetchingConnector
from plugins.sources.source import Guard, Item, Known, Pause, Source, SourceError, size_problem
from text.sanitize import sanitize_line, web_address

LIST_BYTES = 64 << 20
"""An answer of the API at most, and all of a list together."""
ASKED_CHARS = 200
"""What of a question heads its answers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A document of the list; `about` is what the API said of it."""

    key: str
    version: str
    title: str
    url: str
    about: Mapping[str, Any]


class ApiConnector(FetchingConnector):
    """Base of connectors: a subclass lists the entries and writes the text of one. The newest `pages` are read."""

    answer_bytes: ClassVar = LIST_BYTES
    suffix: ClassVar = ".md"

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        super().__init__(source, cache, guard, max_bytes)
        parts = urlsplit(source.location)
        self.origin = source.endpoint.rstrip("/") or f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path.strip("/")
        self.token = source.secret("TOKEN")
        self._pause: Pause = lambda seconds: None
        self._read_bytes = 0

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. Nothing is named before the whole list is there."""
        self._pause, self._read_bytes = pause, 0
        pause(0)
        with _expected(self.source.location):
            entries = {entry.key: entry for entry in islice(self.entries(), self.source.pages)}
        for entry in entries.values():
            self._read_bytes = 0
            before = previous.get(entry.key)
            content, problem = None, ""
            if before is None or before.version != entry.version:
                try:
                    with _expected(entry.url):
                        content = self.text(entry).encode()
                    problem = size_problem(len(content), self.max_bytes)
                except SourceError as error:
                    problem = str(error)
            if problem:
                yield Item(entry.key, problem=problem)
            else:
                title, url = sanitize_line(str(entry.title)), web_address(entry.url)
                yield Item(entry.key, str(entry.version), content, url, title, self.suffix)

    def entries(self) -> Iterator[Entry]:
        """List the documents, newest first. Raises SourceError."""
        raise NotImplementedError

    def text(self, entry: Entry) -> str:
        """Return one document as Markdown or, with that suffix, HTML. Raises SourceError."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """Return the headers that sign a request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def read(self, url: str, body: object = None, **parameters: object) -> Any:
        """Return the JSON of an answer. No redirect is followed, for credentials go along. Raises SourceError.

        All that is read for a list, or for a document, has a limit together.
        """
        self._pause(0)
        query = urlencode({name: value for name, value in parameters.items() if value not in ("", None)})
        address = f"{url}?{query}" if query else url
        sent = None if body is None else json.dumps(body).encode()
        answer = self.fetcher.get(address, {"Accept": "application/json", **self.headers()}, redirects=0, body=sent)
        if answer.status != 200:
            wait = answer.headers.get("retry-after", "")
            more = f"; it wants {wait[:10]} seconds of pause" if wait else ""
            raise SourceError(f"{url} is answered with HTTP {answer.status}{more}: check the address and its token")
        self._read_bytes += len(answer.body)
        if self._read_bytes > LIST_BYTES:
            raise SourceError(f"{self.source.location} lists more than {LIST_BYTES >> 20} MiB: read fewer pages")
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{url} answers no JSON") from error


@contextmanager
def _expected(url: str) -> Iterator[None]:
    """Raise SourceError where an answer has not the shape that it should have."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise SourceError(f"{url}: the API answers otherwise than it should ({error!r:.200})") from error


def thread_markdown(title: str, question: str, answers: Sequence[str]) -> str:
    """Return the answers of a thread as Markdown, each headed by the question, which is no text of its own.

    Else the words of whoever asked, which are nearest to those of the next who asks the same, would be quoted to them.
    """
    title_line = _asked(question)
    parts = (f"# {sanitize_line(str(title))}", *(f"## {title_line}\n\n{_below(answer)}" for answer in answers))
    return "\n\n".join(parts) + "\n"


def _below(answer: str) -> str:
    """Return an answer whose headings are below the one that it stands under; code stays as it is."""
    fenced, lines = False, list[str]()
    for line in answer.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        lines.append(line if fenced else re.sub(r"^(#{1,4})(?=\s)", r"\1##", line))
    return "\n".join(lines)


def thread_html(title: str, question: str, answers: Sequence[str]) -> str:
    """Return the same of a thread that is HTML, as a page."""
    heading = escape(_asked(re.sub(r"<[^>]*>", " ", question)))
    return page_html(title, "".join(f"<h2>{heading}</h2>{answer}" for answer in answers))


def _asked(question: str) -> str:
    """Return the beginning of a question, as the heading of an answer."""
    text = unescape(sanitize_line(question))
    return f"Answer to: {text if len(text) <= ASKED_CHARS else text[:ASKED_CHARS].rstrip() + '…'}"


def page_html(title: str, body: str) -> str:
    name = escape(sanitize_line(str(title)))
    return f"<html><head><title>{name}</title></head><body><main><h1>{name}</h1>{body}</main></body></html>"
