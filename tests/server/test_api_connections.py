"""Clients that keep the server waiting: half-sent requests, bytes in drips, answers nobody reads, too many at once."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import psutil
import pytest
from starlette.responses import PlainTextResponse, StreamingResponse

from server.api import running
from server.api.connections import SPARE_CONNECTIONS

LIMITS = {"header_seconds": 0.5, "body_seconds": 0.5, "write_seconds": 0.5}
QUESTION = {"question": "How long is parental leave?"}
POST = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"
HALF_SENT = {
    "nothing": b"",
    "half a line": b"GET /health HT",
    "headers without end": b"GET /health HTTP/1.1\r\nHost: localhost\r\n",
    "no body": POST,
    "half a body": POST + b'{"query": "lea',
    "half a chunk": POST.replace(b"Content-Length: 9999", b"Transfer-Encoding: chunked") + b'20\r\n{"query": "lea',
    "an unread body": POST.replace(b"/v1/search", b"/nowhere") + b"{",
}

Connect = Callable[..., socket.socket]


@contextmanager
def connections(url: str) -> Iterator[Connect]:
    """Makes plain connections, each with what it says first; closed at the end."""
    address = httpx.URL(url)
    with ExitStack() as opened:

        def connect(says: bytes = b"", *, receive_bytes: int = 0) -> socket.socket:
            made = opened.enter_context(socket.socket())
            if receive_bytes:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            made.connect((address.host, address.port))
            made.sendall(says)
            return made

        yield connect


def rest(connection: socket.socket, seconds: float = 10.0) -> bytes:
    """What still comes until the server closes. Raises TimeoutError where it does not, in less time than by default."""
    connection.settimeout(seconds)
    said = b""
    try:
        while piece := connection.recv(1 << 16):
            said += piece
    except ConnectionResetError:
        pass
    return said


@pytest.fixture
def strict(serve: Any, settings_for: Any, llm: Any) -> Any:
    """A server that does not wait long."""
    return serve(settings_for(llm.url, server=LIMITS))


@pytest.mark.parametrize("name", HALF_SENT)
def test_half_a_request_is_not_waited_for(strict: Any, name: str) -> None:
    with connections(strict.url) as connect:
        began = time.monotonic()
        said = rest(connect(HALF_SENT[name]))
        assert time.monotonic() - began > 0.3
        statuses = [line.split()[1] for line in said.splitlines() if line.startswith(b"HTTP/1.1")]
        assert statuses == {"nothing": [], "an unread body": [b"404"]}.get(name, [b"408"])
        if b"408" in statuses:
            message = json.loads(said.rsplit(b"\r\n", 1)[1])["error"]["message"]
            assert "server.header_seconds" in message or "server.body_seconds" in message


def test_many_that_send_a_byte_now_and_then_are_let_go_and_others_are_answered_meanwhile(strict: Any) -> None:
    with connections(strict.url) as connect, strict.client() as client:
        dripping = [connect(HALF_SENT[name]) for name in HALF_SENT for _ in range(15)]
        began = time.monotonic()
        while dripping and time.monotonic() - began < 10:
            assert client.get("/health").status_code == 200
            closed, _, _ = select.select(dripping, [], [], 0)
            for connection in closed:
                rest(connection)
                dripping.remove(connection)
            for connection in dripping:
                with suppress(OSError):
                    connection.send(b"x")
            time.sleep(0.1)
        assert not dripping


def test_line_ends_between_requests_are_no_way_to_stay(strict: Any) -> None:
    with connections(strict.url) as connect:
        connection = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.sendall(b"\r\n")
        rest(connection)


def test_a_body_that_arrives_steadily_is_waited_for(serve: Any, settings_for: Any) -> None:
    # A busy machine may let a moment pass between two pieces.
    patient = serve(settings_for("none", server={"body_seconds": 1.2}))
    body = json.dumps({"query": "leave", "history": [{"role": "user", "text": "x" * 20000}]}).encode()
    with connections(patient.url) as connect:
        connection = connect(POST.replace(b"9999", str(len(body)).encode()))
        for n in range(0, len(body), 2048):
            connection.sendall(body[n : n + 2048])
            time.sleep(0.15)
        connection.settimeout(40)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_an_answer_may_take_longer_than_a_request(strict: Any, llm: Any) -> None:
    llm.silence = 1.5
    body = json.dumps({"model": "docs", "messages": [{"role": "user", "content": "How long is leave?"}]}).encode()
    with connections(strict.url) as connect:
        head = POST.replace(b"9999", str(len(body)).encode()).replace(b"/v1/search", b"/v1/chat/completions")
        # The next request has begun, and waits.
        connection = connect(head + body + b"GET /hea")
        connection.settimeout(40)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_endless_headers_are_refused(strict: Any) -> None:
    headers = b"".join(b"X-%d: " % n + b"a" * 1000 + b"\r\n" for n in range(100))
    with connections(strict.url) as connect:
        connection = connect(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + headers)
        assert connection.recv(100).startswith(b"HTTP/1.1 431")


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes in little of an answer that is not read: megabytes would have to be written otherwise."""
    listen = running.listen

    def listen_with_small_buffers(settings: Any) -> socket.socket:
        sock = listen(settings)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return sock

    monkeypatch.setattr(running, "listen", listen_with_small_buffers)


@pytest.mark.usefixtures("small_buffers")
def test_a_stream_that_nobody_reads_ends(strict: Any) -> None:
    ended = threading.Event()

    async def flood() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)
        finally:
            ended.set()

    strict.app.add_route("/flood", lambda _: StreamingResponse(flood()))
    with connections(strict.url) as connect:
        connect(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n", receive_bytes=4096)
        assert ended.wait(30)


@pytest.mark.usefixtures("small_buffers")
def test_who_leaves_the_end_of_an_answer_unread_is_let_go(strict: Any) -> None:
    strict.app.add_route("/page", lambda _: PlainTextResponse("x" * 50_000, headers={"Connection": "close"}))
    with connections(strict.url) as connect:
        connect(b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n", receive_bytes=4096)
        place = f"127.0.0.1:{httpx.URL(strict.url).port}"
        deadline = time.monotonic() + 30
        while not open_connections(place):  # most of it waits in the server
            assert time.monotonic() < deadline
        while open_connections(place):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def open_connections(place: str) -> int:
    """How many connections this process has open at an address it listens on."""
    found = psutil.Process().net_connections("tcp")
    return sum(f"{one.laddr.ip}:{one.laddr.port}" == place and one.status != "LISTEN" for one in found)


@pytest.mark.usefixtures("small_buffers")
def test_a_reader_who_reads_nothing_holds_no_turn(strict: Any, llm: Any) -> None:
    llm.pieces, llm.pace = ["word " * 200] * 2000, 0.002
    with strict.client() as client, connections(strict.url) as connect:
        conversation = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
        body = json.dumps(QUESTION).encode()
        path = f"/v1/conversations/{conversation}/turns".encode()
        connect(POST.replace(b"9999", str(len(body)).encode()).replace(b"/v1/search", path) + body, receive_bytes=4096)
        assert llm.disconnected.wait(40)
        deadline, status = time.monotonic() + 60, ""
        while status != "interrupted":
            assert time.monotonic() < deadline, status
            (turn,) = client.get(f"/v1/conversations/{conversation}").json()["messages"]
            status = turn["status"]
            time.sleep(0.05)
        assert b"anaphora_turns_running 0.0" in client.get("/metrics").content


GOOD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_one_connection_too_many_is_told_so(serve: Any, settings_for: Any) -> None:
    few = serve(settings_for("none", server={"connections": 3}))
    with connections(few.url) as connect:
        held = [connect(GOOD) for _ in range(3)]
        assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in held)
        refused = rest(connect(GOOD))
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: " in refused.lower()
        assert json.loads(refused.rsplit(b"\r\n", 1)[1])["error"]["code"] == "too_many_connections"
        held.pop().close()
        deadline = time.monotonic() + 30
        while not (answer := connect(GOOD).recv(20)).startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)


def test_half_a_request_keeps_nobody_out(serve: Any, settings_for: Any) -> None:
    few = serve(settings_for("none", server={"connections": 3}))
    with connections(few.url) as connect:
        held = [connect(POST) for _ in range(3)]
        assert connect(GOOD).recv(100).startswith(b"HTTP/1.1 200")
        assert rest(held[0]) == b"", "the oldest made room"


def test_far_too_many_connections_are_dropped(serve: Any, settings_for: Any) -> None:
    few = serve(settings_for("none", server={"connections": 3}))
    with connections(few.url) as connect:
        spare = [connect() for _ in range(SPARE_CONNECTIONS + 50)]
        deadline = time.monotonic() + 30
        while len(select.select(spare, [], [], 0)[0]) < 50:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert connect(GOOD).recv(100).startswith(b"HTTP/1.1 200")
