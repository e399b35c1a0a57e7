"""Requests to addresses that others name: none reaches a private machine, and none is without bounds.

A name is resolved once for a connection, every address it has is checked, and the connection goes to one that was
checked: a name that means another machine a moment later (DNS rebinding) gains nothing. A redirect is a new request.
Proxies of the environment are not used: they would resolve the name anew.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from plugins.sources.source import Guard, SourceError, size_problem

AGENT = "anaphora (documentation index)"
_REDIRECTS = 5
_SECONDS = httpx.Timeout(30.0, connect=10.0)
_WHOLE_SECONDS = 120.0
_PARSED_BYTES = 4 << 20


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to checked addresses alone."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> httpcore.NetworkStream:
        *others, last = self._guard.addresses(host, port)
        for address in others:
            try:
                return super().connect_tcp(address, port, *more, **options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return super().connect_tcp(last, port, *more, **options)


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
        transport = httpx.HTTPTransport(verify=False, trust_env=False)
        transport.close()
        # This one checks certificates, which it loads with the first connection that needs them.
        transport._pool = httpcore.ConnectionPool(max_connections=4, network_backend=_GuardedBackend(guard))
        headers = {"User-Agent": AGENT}
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
    ) -> Fetched:
        """The answer to a GET; credentials are sent to the first address alone. Raises SourceError."""
        permanent = True
        try:
            for _ in range(redirects + 1):
                response = self._get(url, headers or {}, auth, permanent)
                target = response.headers.get("location", "") if response.status in (301, 302, 303, 307, 308) else ""
                if not target or not redirects:
                    return response
                permanent = permanent and response.status in (301, 308)
                url, auth = str(httpx.URL(url).join(target).copy_with(fragment=None)), None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise SourceError(f"{url} cannot be read: {error or type(error).__name__}") from error
        raise SourceError(f"{url} is reached by more than {redirects} redirects")

    def _get(self, url: str, headers: Mapping[str, str], auth: httpx.Auth | None, permanent: bool) -> Fetched:
        until, body = time.monotonic() + _WHOLE_SECONDS, bytearray()
        if httpx.URL(url).scheme not in ("http", "https") or httpx.URL(url).userinfo:
            raise SourceError(f"{url[:200]} is no plain http(s) address: it is not followed")
        with self._client.stream("GET", url, headers=dict(headers), auth=auth) as answer:
            for chunk in answer.iter_bytes():
                body += chunk
                if problem := size_problem(len(body), self.max_bytes):
                    raise SourceError(f"{url} is not read to its end: {problem}")
                if time.monotonic() > until:
                    raise SourceError(f"{url} takes more than {_WHOLE_SECONDS:g} seconds")
            return Fetched(url, permanent, answer.status_code, answer.headers, bytes(body))


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
