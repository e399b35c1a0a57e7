"""Limits as a client meets them: status, words, and headers that clients know."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from server.chat.collections import CollectionService
from server.store import credentials
from tests.eventually import eventually
from tests.serving import MakeSettings, Running, Serve, stop_clock

ASKED = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}


@pytest.fixture(autouse=True)
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch)


def key(running: Running, name: str) -> dict[str, str]:
    """The headers of a new key."""
    _, secret = running.service.core.database.write_blocking(
        lambda connection: credentials.create_key(connection, name)
    )
    return {"Authorization": f"Bearer {secret}"}


def test_one_request_too_many_is_told_when_to_try_again(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"requests_per_minute": 3, "tokens_per_minute": 500}))
    ann, bob = key(running, "ann"), key(running, "bob")
    with running.client() as client:
        first = client.get("/v1/models", headers=ann)
        assert first.headers["ratelimit-policy"] == '"requests";q=3;w=60, "tokens";q=500;w=60'
        assert re.match(r'"requests";r=2;t=(5\d|60), "tokens";r=500;t=', first.headers["ratelimit"])
        assert first.headers["x-ratelimit-limit-requests"] == "3"
        assert first.headers["x-ratelimit-remaining-requests"] == "2"
        assert re.fullmatch(r"(5\d|60)s", first.headers["x-ratelimit-reset-requests"])
        assert first.headers["x-ratelimit-remaining-tokens"] == "500"
        client.get("/v1/nothing", headers=ann)
        client.get("/v1/conversations", headers=ann)
        # What belongs to no principal, and the page's files, are not counted.
        for path in ("/health", "/ready", "/metrics"):
            assert "ratelimit" not in client.get(path, headers=ann).headers
        refused = client.post("/v1/chat/completions", json=ASKED, headers=ann)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert "3 requests a minute" in error["message"]
        assert "limits.requests_per_minute" in error["message"]
        assert client.get("/v1/models", headers=bob).status_code == 200


def test_openai_s_client_understands_the_refusal(serve: Serve, settings_for: MakeSettings) -> None:
    import openai

    running = serve(settings_for("none", limits={"requests_per_minute": {"local": 1}}))
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client:
        client.models.list()
        with pytest.raises(openai.RateLimitError, match=r"Try again in \d+ s") as caught:
            client.models.list()
        assert 1 <= float(client._parse_retry_after_header(caught.value.response.headers) or 0) <= 60


def test_a_turn_is_refused_while_the_tokens_of_the_minute_are_spent(
    serve: Serve, settings_for: MakeSettings, llm: Any
) -> None:
    running = serve(settings_for(llm.url, limits={"tokens_per_minute": 50}))
    ann, bob = key(running, "ann"), key(running, "bob")
    with running.client() as client:
        answered = client.post("/v1/chat/completions", json=ASKED, headers=ann)
        assert answered.json()["usage"]["total_tokens"] == 57
        assert client.get("/v1/models", headers=ann).headers["x-ratelimit-remaining-tokens"] == "0"
        for streamed in (False, True):
            refused = client.post("/v1/chat/completions", json={**ASKED, "stream": streamed}, headers=ann)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert "limits.tokens_per_minute" in refused.json()["error"]["message"]
        # Searching costs none, and others have their own.
        assert client.post("/v1/search", json={"query": "leave"}, headers=ann).status_code == 200
        assert client.post("/v1/chat/completions", json=ASKED, headers=bob).status_code == 200


def test_a_turn_that_is_stopped_costs_what_was_read_until_then(
    serve: Serve, settings_for: MakeSettings, llm: Any
) -> None:
    running = serve(settings_for(llm.url, limits={"tokens_per_minute": 10}))
    ann = key(running, "ann")
    llm.pace = 0.05
    llm.pieces = [f"Parental leave of kind {n} lasts ten weeks. " for n in range(2000)]
    with running.client() as client:
        with client.stream("POST", "/v1/chat/completions", json={**ASKED, "stream": True}, headers=ann) as answer:
            assert any("Parental" in line for line in answer.iter_lines())
        assert llm.disconnected.wait(120)
        eventually(lambda: client.get("/v1/models", headers=ann).headers["x-ratelimit-remaining-tokens"] == "0")
        assert client.post("/v1/chat/completions", json=ASKED, headers=ann).status_code == 429


def test_one_principal_may_not_take_every_place(serve: Serve, settings_for: MakeSettings, llm: Any) -> None:
    running = serve(settings_for(llm.url, limits={"concurrent_turns": 1}))
    ann, bob = key(running, "ann"), key(running, "bob")
    llm.pace = 0.05
    llm.pieces = [f"Parental leave of kind {n} lasts ten weeks. " for n in range(2000)]
    with running.client() as client:
        with client.stream("POST", "/v1/chat/completions", json={**ASKED, "stream": True}, headers=ann):
            assert llm.streaming.wait(120)
            for path, body in (("/v1/chat/completions", ASKED), ("/v1/search", {"query": "leave"})):
                refused = client.post(path, json=body, headers=ann)
                assert refused.status_code == 429
                assert int(refused.headers["retry-after"]) >= 1
                assert "limits.concurrent_turns" in refused.json()["error"]["message"]
            assert client.post("/v1/search", json={"query": "leave"}, headers=bob).status_code == 200
        assert llm.disconnected.wait(120)
        eventually(lambda: client.post("/v1/search", json={"query": "leave"}, headers=ann).status_code == 200)


def upload(client: Any, who: dict[str, str], name: str, size: int) -> Any:
    text = b"# Parking\n\n" + b"Bicycles are parked in the cellar.\n" * (size // 35)
    return client.post("/v1/collections/docs/documents", files={"file": (name, text)}, headers=who)


def test_uploads_have_room_for_so_much_of_one_principal(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"stored_mb": 1}))
    ann, bob = key(running, "ann"), key(running, "bob")
    with running.client() as client:
        assert upload(client, ann, "a.md", 700_000).status_code == 202
        refused = upload(client, ann, "b.md", 700_000)
        assert refused.status_code == 413
        error = refused.json()["error"]
        assert error["code"] == "storage_limit"
        assert "Your files have 0.7 MiB" in error["message"]
        assert "1 MiB" in error["message"]
        assert "limits.stored_mb" in error["message"]
        assert not list((running.service.settings.home / "uploads").rglob("b.md*"))
        # In its own place a file may grow.
        assert upload(client, ann, "a.md", 900_000).status_code == 202
        assert upload(client, bob, "b.md", 700_000).status_code == 202


def test_one_job_too_many_is_refused_before_its_file_is_stored(
    serve: Serve, settings_for: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serve(settings_for("none", limits={"jobs": 2}))
    ann, bob = key(running, "ann"), key(running, "bob")
    go_on = threading.Event()
    monkeypatch.setattr(CollectionService, "_index", lambda *_, **__: go_on.wait(120) and [])
    try:
        with running.client() as client, ThreadPoolExecutor(6) as at_once:
            answers = list(at_once.map(lambda n: upload(client, ann, f"{n}.md", 100), range(6)))
            assert sorted(answer.status_code for answer in answers) == [202, 202, 429, 429, 429, 429]
            refused = next(answer for answer in answers if answer.status_code == 429)
            assert "2 jobs of yours are not finished" in refused.json()["error"]["message"]
            assert "limits.jobs" in refused.json()["error"]["message"]
            assert int(refused.headers["retry-after"]) >= 1
            assert len(list((running.service.settings.home / "uploads").rglob("*.md"))) == 2
            assert client.post("/v1/collections/docs/reindex", headers=ann).status_code == 429
            assert upload(client, bob, "bob.md", 100).status_code == 202
    finally:
        go_on.set()


def test_a_redis_that_is_away_is_said_and_keeps_nobody_out(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"requests_per_minute": {"local": 5}, "store": "redis://127.0.0.1:1"}))
    running.call(running.service.core.warm())
    with running.client() as client:
        ready = client.get("/ready")
        assert ready.status_code == 200
        assert "Redis" in ready.json()["warnings"][0]
        assert [client.get("/v1/models").status_code for _ in range(6)] == [200] * 5 + [429]


def test_the_page_says_in_words_that_it_asked_too_often(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"requests_per_minute": {"local": 4}})).mount_page()
    with running.client() as client:
        components = client.get("/config").json()["components"]
        rail = next(one["id"] for one in components if one["props"].get("elem_id") == "rail")

        def call(name: str) -> Any:
            body = {"session_hash": "tab", "component_id": rail, "fn_name": name, "data": {"jobs": {}}}
            return client.post("/gradio_api/component_server", json=body).json()

        # Drawing the page again and again, and what it asks by itself, are told apart.
        assert [call("watch_jobs")["running"] for _ in range(9)] == [False] * 9
        assert ["error" in call("list_collections") for _ in range(5)] == [False] * 4 + [True]
        words = call("list_collections")["error"]
        assert "4 requests a minute are allowed (limits.requests_per_minute)" in words
        assert "Try again in" in words
        # What it sends to the API, such as uploads, counts there.
        assert client.get("/v1/models").status_code == 429
