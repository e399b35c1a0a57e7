"""Requests to addresses that others name: none reaches a private machine, and none is without bounds.

`server.guarded_http` checks the addresses. A redirect is a new request. A request has its time as a whole, and its
body its length once it is unpacked: a server can send single bytes for days, or a few that stand for gigabytes.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx

from plugins.sources.source import Connector, Guard, Source, SourceError, size_problem
from server.guarded_http import guarded_transport

AGENT = "anaphora (documentation index)"
_REDIRECTS = 5
_SECONDS = httpx.Timeout(30.0, connect=10.0)
_WHOLE_SECONDS = 120.0
_GZIP = 31
"""Tells zlib the frame."""
_PARSED_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer with its whole body, the address it came from, and whether every redirect to there was for good."""

    url: str
    permanent: bool
    status: int
    headers: httpx.Headers
    body: bytes


class Fetcher:
    """GET requests through a guard, with bodies of at most `max_bytes`."""

    def __init__(self, guard: Guard, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        transport, self._backend = guarded_transport(guard)
        headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip"}
        self._client = httpx.Client(transport=transport, timeout=_SECONDS, headers=headers, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        redirects: int = _REDIRECTS,
        auth: httpx.Auth | None = None,
        body: bytes | None = None,
    ) -> Fetched:
        """The answer to a GET, with a `body` to a POST of JSON; `auth` is sent to the first address alone.

        Raises SourceError.
        """
        permanent = True
        try:
            for _ in range(redirects + 1):
                response = self._get(url, headers or {}, auth, permanent, body)
                target = response.headers.get("location", "") if response.status in (301, 302, 303, 307, 308) else ""
                if not target or not redirects:
                    return response
                permanent = permanent and response.status in (301, 308)
                url, auth = str(httpx.URL(url).join(target).copy_with(fragment=None)), None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, zlib.error) as error:
            raise SourceError(f"{url} cannot be read: {error or type(error).__name__}") from error
        raise SourceError(f"{url} is reached by more than {redirects} redirects")

    def _get(
        self, url: str, headers: Mapping[str, str], auth: httpx.Auth | None, permanent: bool, sent: bytes | None
    ) -> Fetched:
        if httpx.URL(url).scheme not in ("http", "https") or httpx.URL(url).userinfo:
            raise SourceError(f"{url[:200]} is no plain http(s) address: it is not followed")
        self._backend.until = time.monotonic() + _WHOLE_SECONDS
        method, kind = ("POST", {"Content-Type": "application/json"}) if sent is not None else ("GET", {})
        with self._client.stream(method, url, headers={**headers, **kind}, content=sent, auth=auth) as answer:
            coding = answer.headers.get("content-encoding", "identity").lower()
            if coding not in ("identity", "gzip"):
                raise SourceError(f"{url} is packed as {coding[:60]!r}, which was not asked for")
            body, unpacker = bytearray(), zlib.decompressobj(_GZIP) if coding == "gzip" else None
            for chunk in answer.iter_raw():
                body += unpacker.decompress(chunk, self.max_bytes + 1 - len(body)) if unpacker else chunk
                if problem := size_problem(len(body), self.max_bytes):
                    raise SourceError(f"{url} is not read to its end: {problem}")
            if unpacker and body and not unpacker.eof:
                raise SourceError(f"{url} is not read to its end: what was packed is cut off")
            return Fetched(url, permanent, answer.status_code, answer.headers, bytes(body))


class FetchingConnector(Connector):
    """Base of connectors that read by HTTP; an answer has at most `answer_bytes`, or those of a document."""

    answer_bytes: ClassVar = 0

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        super().__init__(source, cache, guard, max_bytes)
        self.fetcher = Fetcher(guard, self.answer_bytes or max_bytes)

    def close(self) -> None:
        self.fetcher.close()


def parse_tree(body: bytes, *, html: bool) -> Any:
    """Return the tree of a hostile page or list; None if there is none. Nothing outside of it is read."""
    from lxml import etree

    hostile = {"no_network": True, "recover": True}
    parser = (
        etree.HTMLParser(encoding="utf-8", **hostile) if html else etree.XMLParser(resolve_entities=False, **hostile)
    )
    try:
        return etree.fromstring(body[:_PARSED_BYTES], parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
