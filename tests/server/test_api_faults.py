"""What goes wrong while a turn runs: readers who leave, models that die, full queues, full disks, killed servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.api import app as api_app
from server.store import credentials, schema
from tests.eventually import eventually

QUESTION = {"question": "How long is parental leave?"}
COMPLETION = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}


def begin(client: httpx.Client) -> str:
    conversation: str = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
    return conversation


def only_turn(client: httpx.Client, conversation: str) -> dict[str, Any]:
    (turn,) = client.get(f"/v1/conversations/{conversation}").json()["messages"]
    return dict(turn)


def stored(client: httpx.Client, conversation: str) -> dict[str, Any]:
    """The turns of a conversation by their ids."""
    return {turn["id"]: turn for turn in client.get(f"/v1/conversations/{conversation}").json()["messages"]}


@pytest.mark.parametrize("name", ["\ud800", "\0", "a/b", "\u202edocs"])
@pytest.mark.parametrize(
    ("path", "status"), [("/v1/search", 404), ("/v1/chat/completions", 404), ("/v1/conversations", 400)]
)
def test_what_no_collection_can_be_called_is_no_fault_of_the_server(
    shared: Any, path: str, status: int, name: str
) -> None:
    names = {"collection": name} if path != "/v1/chat/completions" else {**COMPLETION, "model": name}
    question = {"query": "How long?"} if path == "/v1/search" else {}
    with shared.client(headers={"Content-Type": "application/json"}) as client:
        answer = client.post(path, content=json.dumps({**question, **names}))
    assert answer.status_code == status, answer.text
    assert "error" in answer.json()


def test_a_reader_who_leaves_a_stream_stops_the_model(running: Any, llm: Any) -> None:
    llm.pieces, llm.pace = ["word "] * 2000, 0.02
    with running.client() as client:
        conversation = begin(client)
        with client.stream("POST", f"/v1/conversations/{conversation}/turns", json=QUESTION) as answer:
            for line in answer.iter_lines():
                if '"token"' in line:
                    break
        assert llm.disconnected.wait(120)
        eventually(lambda: only_turn(client, conversation)["status"] == "interrupted")
        assert only_turn(client, conversation)["answer"].startswith("word")
        assert b"anaphora_turns_running 0.0" in client.get("/metrics").content


def test_a_reader_who_leaves_without_streaming_stops_the_model(running: Any, llm: Any) -> None:
    llm.silence = 60.0
    address = httpx.URL(running.url)
    with socket.create_connection((address.host, address.port or 0)) as connection:
        body = json.dumps(COMPLETION).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: llm.requests)
    assert llm.disconnected.wait(120)


def test_a_model_that_dies_mid_stream_ends_the_turn_with_what_was_said(running: Any, llm: Any) -> None:
    llm.die_after = 2
    with running.client() as client:
        conversation = begin(client)
        text = client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION).text
        error = json.loads(text.rsplit("data: ", 1)[1])
        assert error["type"] == "error"
        assert error["code"] == "llm_unreachable"
        turn = only_turn(client, conversation)
        assert turn["status"] == "failed"
        assert turn["error"] == error
        assert turn["answer"].startswith("Parental leave")
        llm.die_after = None
        again = client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION).text
        assert '"status":"answered"' in again


def test_a_turn_that_takes_too_long_is_stopped(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.silence = 60.0
    monkeypatch.setattr("server.chat.running_turn.turn_seconds", lambda settings: 1.0)
    running = serve(settings_for(llm.url))
    running.call(running.service.core.warm())
    with running.client() as client:
        answer = client.post("/v1/chat/completions", json=COMPLETION)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "turn_timeout"
        assert "llm.timeout_seconds" in answer.json()["error"]["message"]
    # On a busy machine the time is over before the model is asked.
    assert not llm.requests or llm.disconnected.wait(120)


@pytest.mark.parametrize(
    "taken",
    [
        lambda c, key: credentials.revoke_key(c, key),
        lambda c, key: c.exec_driver_sql("UPDATE keys SET expires = 1").rowcount,
        lambda c, key: schema.grant(c, "docs", "elsewhere"),
    ],
    ids=["revoked", "expired", "grant"],
)
def test_an_answer_ends_with_the_right_to_it(
    running: Any, llm: Any, monkeypatch: pytest.MonkeyPatch, taken: Callable[[Any, str], object]
) -> None:
    monkeypatch.setattr("server.chat.running_turn.RIGHTS_SECONDS", 0.0)
    database = running.service.core.database
    key, secret = database.write_blocking(
        lambda c: credentials.create_key(c, "reader", "reader", frozenset({"default"}))
    )
    llm.pieces, llm.pace = ["word "] * 2000, 0.02
    with (
        running.client(headers={"Authorization": f"Bearer {secret}"}) as client,
        client.stream("POST", "/v1/chat/completions", json={**COMPLETION, "stream": True}) as answer,
    ):
        lines = answer.iter_lines()
        assert any("word" in line for line in lines)
        database.write_blocking(lambda c: taken(c, key.id))
        assert any('"not_allowed"' in line for line in lines)
    assert llm.disconnected.wait(120)


def test_who_finds_the_queue_full_is_told_when_to_come_back(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.chat.limits.QUEUE_LENGTH", 1)
    llm.pieces, llm.pace = ["word "] * 1000, 0.02
    running = serve(settings_for(llm.url, server={"concurrent_turns": 1}))

    def ask() -> httpx.Response:
        with running.client() as client:
            return client.post("/v1/chat/completions", json=COMPLETION)

    with ThreadPoolExecutor(2) as pool, running.client() as client:
        waiting = [pool.submit(ask) for _ in range(2)]
        eventually(lambda: b"anaphora_turns_waiting 1.0" in client.get("/metrics").content)
        refused = client.post("/v1/chat/completions", json=COMPLETION)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert client.post("/v1/search", json={"query": "leave"}).status_code == 429
        llm.pieces, llm.pace = ["word"], 0.0
        assert [future.result(120).status_code for future in waiting] == [200, 200]
        assert client.post("/v1/search", json={"query": "leave"}).status_code == 200


@pytest.mark.extended
def test_a_reader_who_stops_reading_gives_its_place_back(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = api_app.listen

    def narrow(settings: Any) -> socket.socket:
        # What was accepted inherits it.
        listener = listen(settings)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listener

    monkeypatch.setattr(api_app, "listen", narrow)
    monkeypatch.setattr("server.api.dependencies.SEND_SECONDS", 0.5)
    llm.pieces = ["word " * 200] * 300
    running = serve(settings_for(llm.url, server={"concurrent_turns": 1}))
    running.call(running.service.core.warm())
    body = json.dumps({**COMPLETION, "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    with socket.socket() as stalled, running.client() as client:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        stalled.connect(("127.0.0.1", int(running.url.rpartition(":")[2])))
        stalled.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        assert llm.streaming.wait(120)
        assert client.post("/v1/search", json={"query": "leave"}).status_code == 200


def test_who_leaves_the_queue_makes_room(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.chat.limits.QUEUE_LENGTH", 1)
    llm.pieces, llm.pace = ["word "] * 2000, 0.02
    running = serve(settings_for(llm.url, server={"concurrent_turns": 1}))
    with running.client() as client, running.client() as second:
        with client.stream("POST", "/v1/chat/completions", json={**COMPLETION, "stream": True}):
            eventually(lambda: llm.streaming.is_set())
            with second.stream("POST", "/v1/chat/completions", json={**COMPLETION, "stream": True}) as queued:
                assert queued.status_code == 200
            eventually(lambda: b"anaphora_turns_waiting 0.0" in second.get("/metrics").content)
        eventually(lambda: b"anaphora_turns_running 0.0" in second.get("/metrics").content)


def test_a_full_disk_does_not_stop_an_answer(running: Any) -> None:
    database = running.service.core.database
    with running.client() as client:
        conversation = begin(client)
        client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION)
        database.write_blocking(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1").fetchone())
        answered = warned = ""
        for _ in range(20):
            text = client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION).text
            done = json.loads(text.rsplit("data: ", 1)[1])
            answered, warned = done["answer"], done["warning"]
            if warned:
                break
        assert answered == "Parental leave lasts ten weeks. [1]"
        assert "not saved" in warned
        assert "Free some space" in warned
        refused = client.post("/v1/conversations", json={"title": "x" * 400})
        assert refused.status_code in (201, 503)
        database.write_blocking(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1000000").fetchone())
        assert client.get(f"/v1/conversations/{conversation}").json()["messages"]
        text = client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION).text
        assert json.loads(text.rsplit("data: ", 1)[1])["warning"] == ""


def test_a_stopping_server_says_so_to_its_streams(running: Any, llm: Any) -> None:
    llm.pieces, llm.pace = ["word "] * 2000, 0.02
    lines: list[str] = []

    def read() -> None:
        with running.client() as client:
            conversation = begin(client)
            with client.stream("POST", f"/v1/conversations/{conversation}/turns", json=QUESTION) as answer:
                lines.extend(line for line in answer.iter_lines() if line.startswith("data: "))

    reader = threading.Thread(target=read)
    reader.start()
    assert llm.streaming.wait(120)
    from sse_starlette.sse import AppStatus

    AppStatus.should_exit = True
    try:
        reader.join(120)
    finally:
        AppStatus.should_exit = False
    assert not reader.is_alive()
    assert json.loads(lines[-1].removeprefix("data: "))["code"] == "server_stopping"


SERVER = """
import asyncio, sys
from pathlib import Path
from server.api.app import create_app
from server.api.app import Server, address, listen
from server.chat import open_service
from server.settings import Settings

async def main():
    settings = Settings.model_validate_json(Path(sys.argv[1]).read_text())
    async with open_service(settings, warm=False) as service:
        sock = listen(settings.server)
        print(address(sock), flush=True)
        await Server(create_app(service, settings), settings.server).serve(sockets=[sock])

asyncio.run(main())
"""


@pytest.mark.extended
def test_a_killed_server_loses_no_turn_it_acknowledged(settings_for: Any, serve: Any, llm: Any, tmp_path: Path) -> None:
    settings = settings_for(llm.url, server={"port": 0})
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    command = [sys.executable, "-c", SERVER, str(tmp_path / "settings.json")]
    environment = {**os.environ, "ANAPHORA_HOME": str(settings.home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, timeout=90, verify=False) as client:
            conversation = begin(client)
            finished = client.post(f"/v1/conversations/{conversation}/turns", json=QUESTION).headers["x-turn-id"]
            llm.pieces, llm.pace = ["word "] * 2000, 0.01
            with client.stream("POST", f"/v1/conversations/{conversation}/turns", json=QUESTION) as answer:
                running_turn = answer.headers["x-turn-id"]
                for n, _ in enumerate(answer.iter_lines()):
                    if n % 20 == 0 and stored(client, conversation)[running_turn]["answer"].count("word") > 10:
                        break
                process.send_signal(signal.SIGKILL)
                process.wait()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    again = serve(settings)
    with again.client() as client:
        turns = stored(client, conversation)
    assert turns[finished]["status"] == "answered"
    assert turns[finished]["answer"] == "Parental leave lasts ten weeks. [1]"
    assert turns[running_turn]["status"] == "interrupted"
    assert turns[running_turn]["answer"].count("word") > 10


def test_a_reader_who_leaves_during_the_prefill_stops_the_model(running: Any, llm: Any) -> None:
    llm.silence = 60.0
    with running.client() as client:
        conversation = begin(client)
        with client.stream("POST", f"/v1/conversations/{conversation}/turns", json=QUESTION) as answer:
            # Held, for a dropped iterator would close the connection.
            lines = answer.iter_lines()
            assert any('"evidence"' in line for line in lines)
            eventually(lambda: llm.requests)
        assert llm.disconnected.wait(120)
        eventually(lambda: only_turn(client, conversation)["status"] == "interrupted")
