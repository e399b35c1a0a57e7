"""Connections go to public addresses alone, whatever a name means a moment later, and certificates are checked."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.guarded_http import AddressGuard, Resolve, guarded_transport, is_public, system_addresses


def get(url: str, resolve: Resolve = system_addresses, *private: str) -> httpx.Response:
    transport, _ = guarded_transport(AddressGuard(frozenset(private), resolve))
    with httpx.Client(transport=transport, trust_env=False) as client:
        return client.get(url)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.8", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:8",
     "2001:0:4136:e378:8000:63bf:80ff:fffe", "ff02::1", "fec0::1", "168.63.129.16"],
)  # fmt: skip
def test_private_addresses_are_no_public_ones(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are() -> None:
    assert all(is_public(address) for address in ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"))


def test_a_name_that_means_another_machine_a_moment_later_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was checked is connected to: the name is resolved once, and never by the library that connects."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    connected: list[Any] = []

    def connect(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        connected.append(address[0])
        raise ConnectionRefusedError("not in a test")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(httpx.ConnectError, match="not in a test"):
        get("http://rebind.example/", lambda host, port: answers.pop(0))
    with pytest.raises(OSError, match="private address"):
        get("http://rebind.example/", lambda host, port: answers.pop(0))
    assert connected == ["93.184.216.34"]
    with pytest.raises(OSError, match="private address"):
        get("http://both.example/", lambda host, port: ["93.184.216.34", "10.0.0.1"])


def test_certificates_are_checked(tmp_path: Path) -> None:
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost"
    subprocess.run([*made.split(), "-keyout", tmp_path / "k", "-out", tmp_path / "c"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError), context.wrap_socket(server.accept()[0], server_side=True):
                pass

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(httpx.ConnectError, match="certificate"):
            get(f"https://127.0.0.1:{server.getsockname()[1]}/", system_addresses, "127.0.0.1")
        thread.join()
