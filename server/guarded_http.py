"""Connections to checked addresses alone, whatever a name means a moment later, and in limited time.

Where others name the host, no address of a private machine is asked unless an operator says so (`AddressGuard`).

A name is resolved once for a connection, every address it has is checked, and the connection goes to one that was
checked (against DNS rebinding). Proxies of the environment are not used: they would resolve the name anew. A request
has its time as a whole, for a server can send single bytes for days.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import httpcore
import httpx

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Azure's machines reach their host by it, as they do by 169.254.169.254.
_HOST = ipaddress.ip_address("168.63.129.16")

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


def system_addresses(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine resolves it. Raises OSError."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in infos))


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, those that are wrapped in an IPv6 address included."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if wrapped is not None:
            return is_public(str(wrapped))
        if ip.is_site_local:
            return False
    return ip != _HOST and ip.is_global and not ip.is_multicast and not ip.is_reserved


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Says to which addresses a connection may go. Names of `private_hosts` may have private ones.

    A plugin says what `error` it raises, and by which `setting` its operator names private hosts.
    """

    private_hosts: frozenset[str] = frozenset()
    resolve: Resolve = system_addresses
    error: ClassVar[type[Exception]] = OSError
    setting: ClassVar[str] = ""

    def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of them allowed. Raises `error`."""
        host = host.lower().strip("[]").rstrip(".")
        try:
            infos = list(self.resolve(host, port))
            allowed = host in self.private_hosts or all(map(is_public, infos))
        except (OSError, UnicodeError, ValueError) as error:
            raise self.error(f"{host} cannot be found ({error}): check the name") from error
        if not allowed or not infos:
            raise self.error(f"{host} is at a private address, which is not asked unless {self.setting} names it")
        return infos


class _TimedStream(httpcore.NetworkStream):
    """A connection on which no wait is longer than `left` makes of it."""

    def __init__(self, stream: httpcore.NetworkStream, left: Callable[[float | None], float]) -> None:
        self._stream = stream
        self._left = left
        self.close = stream.close  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, self._left(timeout)), self._left)


class GuardedBackend(httpcore.SyncBackend):
    """Connects to checked addresses alone; what is asked there must be over by `until`."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self.until = math.inf

    def connect_tcp(self, host: str, port: int, *more: Any, **options: Any) -> httpcore.NetworkStream:
        *others, last = self._guard.addresses(host, port)
        for address in others:
            try:
                return _TimedStream(super().connect_tcp(address, port, *more, **options), self._left)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return _TimedStream(super().connect_tcp(last, port, *more, **options), self._left)

    def _left(self, seconds: float | None) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("it takes too long")
        return min(left, math.inf if seconds is None else seconds)


def guarded_transport(guard: AddressGuard) -> tuple[httpx.HTTPTransport, GuardedBackend]:
    """Return a transport whose connections `guard` allows, and its backend, which takes the time of a request."""
    transport = httpx.HTTPTransport(verify=False, trust_env=False)
    transport.close()
    # This one checks certificates, which it loads with the first connection that needs them.
    backend = GuardedBackend(guard)
    transport._pool = httpcore.ConnectionPool(max_connections=4, network_backend=backend)
    return transport, backend
