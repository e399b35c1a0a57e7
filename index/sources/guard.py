"""Requests to addresses that others name: none reaches a private machine, and none is without bounds.

A name is resolved once for a connection, every address it has is checked, and the connection goes to one that was
checked: a name that means another machine a moment later (DNS rebinding) gains nothing. A redirect is a new request.
Proxies of the environment are not used: they would resolve the name anew.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import httpcore
import httpx

from index.errors import SourceError

AGENT = "anaphora (documentation index)"
REDIRECTS = 5
_CONNECT_SECONDS, _READ_SECONDS, _WHOLE_SECONDS = 10.0, 30.0, 120.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


def system_addresses(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine resolves it. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, those that are wrapped in an IPv6 address included."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if wrapped is not None:
            return is_public(str(wrapped))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


@dataclass(frozen=True, slots=True)
class Guard:
    """Says to which addresses a connection may go. Names of `private_hosts` may have private ones."""

    private_hosts: frozenset[str] = frozenset()
    resolve: Resolve = system_addresses

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of them allowed. Raises SourceError."""
        host = host.lower().strip("[]").rstrip(".")
        try:
            found = list(self.resolve(host, port))
            refused = [one for one in found if host not in self.private_hosts and not is_public(one)]
        except (OSError, UnicodeError, ValueError) as error:
            raise SourceError(f"{host} cannot be found ({error}): check the name") from error
        if refused or not found:
            raise SourceError(
                f"{host} is at a private address, which nothing is asked of unless sources.private_hosts names it"
            )
        return found


class _GuardedBackend(httpcore.SyncBackend):
    """Connects to checked addresses alone."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in self._guard.addresses(host, port):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure


class GuardedTransport(httpx.HTTPTransport):
    """For `httpx.Client`: what the guard refuses is raised as SourceError."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(verify=False, trust_env=False)
        self._pool.close()
        # Certificates are loaded with the first connection that needs them.
        self._pool = httpcore.ConnectionPool(max_connections=4, network_backend=_GuardedBackend(guard))


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: where it came from after redirects, its status, headers and whole body.

    `permanent` tells that every redirect on the way was for good.
    """

    url: str
    status: int
    headers: httpx.Headers
    body: bytes
    permanent: bool = True


@dataclass
class Fetcher:
    """GET requests through a guard, with bodies of at most `max_bytes`."""

    guard: Guard
    max_bytes: int
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        limits = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
        self.client = httpx.Client(
            transport=GuardedTransport(self.guard), timeout=limits, headers={"User-Agent": AGENT}, trust_env=False
        )

    def close(self) -> None:
        self.client.close()

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        redirects: int = REDIRECTS,
        auth: httpx.Auth | None = None,
    ) -> Fetched:
        """The answer to a GET; credentials are sent to the first address alone. Raises SourceError."""
        permanent = True
        try:
            for _ in range(redirects + 1):
                found = self._get(url, headers or {}, auth)
                target = found.headers.get("location", "") if found.status in (301, 302, 303, 307, 308) else ""
                if not target or not redirects:
                    return replace(found, permanent=permanent)
                permanent = permanent and found.status in (301, 308)
                url, auth = str(httpx.URL(url).join(target).copy_with(fragment=None)), None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise SourceError(f"{url} cannot be read: {error or type(error).__name__}") from error
        raise SourceError(f"{url} is reached by more than {redirects} redirects")

    def _get(self, url: str, headers: Mapping[str, str], auth: httpx.Auth | None) -> Fetched:
        until = time.monotonic() + _WHOLE_SECONDS
        if httpx.URL(url).scheme not in ("http", "https") or httpx.URL(url).userinfo:
            raise SourceError(f"{url[:200]} is no plain http(s) address: it is not followed")
        with self.client.stream("GET", url, headers=dict(headers), auth=auth) as answer:
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > self.max_bytes:
                    raise SourceError(f"{url} has more than {self.max_bytes >> 20} MiB (index.max_file_mb)")
                if time.monotonic() > until:
                    raise SourceError(f"{url} takes more than {_WHOLE_SECONDS:g} seconds")
            return Fetched(url, answer.status_code, answer.headers, bytes(body))
