"""Requests that a dying worker takes: over a real socket, with a stand-in for the supervisor that says who lives."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest

from server.engines import local
from server.engines.local import SocketTransport
from server.engines.supervisor import Supervisor

QUESTION = b"question"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Living:
    """As much of a supervisor as the transports ask."""

    status = "ready"
    pid = 1

    def check(self) -> None:
        """It is."""


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> Living:
    monkeypatch.setattr(local, "_DYING_SECONDS", 0.2)
    return Living()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[list[Callable[[], bytes]]], str]]:
    """Start answering one connection after the other, each with what its function gives; nothing hangs up."""
    listening = socket.socket(socket.AF_UNIX)
    threads = []

    def start(answers: list[Callable[[], bytes]]) -> str:
        path = str(tmp_path / "engine.sock")
        listening.bind(path)
        listening.listen()

        def run() -> None:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    # To the end: a socket that is closed with unread bytes resets the connection.
                    received = b""
                    while not received.endswith(QUESTION) and (part := connection.recv(1 << 16)):
                        received += part
                    connection.sendall(answer())

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return path

    yield start
    threads[0].join(120)
    assert not threads[0].is_alive(), "fewer requests came than were expected"
    listening.close()


def ask(path: str, living: Living) -> str:
    transport = SocketTransport(path, cast("Supervisor", living), 90)

    async def post() -> str:
        async with httpx.AsyncClient(transport=transport, timeout=90) as client:
            return (await client.post("http://engine/", content=QUESTION)).text

    return asyncio.run(post())


def die(living: Living) -> bytes:
    living.pid += 1
    return b""


def test_what_a_dying_worker_took_goes_to_the_next(serve: Callable[..., str], living: Living) -> None:
    assert ask(serve([lambda: die(living), lambda: ANSWER]), living) == "hello"


def test_a_request_that_kills_every_worker_ends_after_the_second(serve: Callable[..., str], living: Living) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(serve([lambda: die(living), lambda: die(living)]), living)


def test_a_worker_that_lives_and_hangs_up_is_not_asked_again(serve: Callable[..., str], living: Living) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(serve([lambda: b""]), living)
