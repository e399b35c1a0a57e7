"""Which addresses may be asked where others name the host: none of a private machine, unless an operator says so."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

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
