"""Limits as a client meets them: status, words, and headers that clients know."""

from __future__ import annotations

from typing import Any

import pytest

from server.store import keys
from tests.serving import MakeSettings, Running, Serve

ASKED = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}


def key(running: Running, name: str) -> dict[str, str]:
    """The headers of a new key."""
    _, secret = running.service.core.database.write_blocking(lambda connection: keys.create(connection, name))
    return {"Authorization": f"Bearer {secret}"}


def test_one_request_too_many_is_told_when_to_try_again(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"requests_per_minute": 3, "tokens_per_minute": 500}))
    ann, bob = key(running, "ann"), key(running, "bob")
    with running.client() as client:
        first = client.get("/v1/models", headers=ann)
        assert first.headers["ratelimit-policy"] == '"requests";q=3;w=60, "tokens";q=500;w=60'
        assert first.headers["ratelimit"].startswith('"requests";r=2;t=60, "tokens";r=500;t=')
        assert first.headers["x-ratelimit-limit-requests"] == "3"
        assert first.headers["x-ratelimit-remaining-requests"] == "2"
        assert first.headers["x-ratelimit-reset-requests"] == "60s"
        assert first.headers["x-ratelimit-remaining-tokens"] == "500"
        client.get("/v1/nothing", headers=ann)
        client.get("/v1/conversations", headers=ann)
        # What belongs to no principal, and the page's files, are not counted.
        for path in ("/health", "/ready", "/metrics"):
            assert "ratelimit" not in client.get(path, headers=ann).headers
        refused = client.post("/v1/chat/completions", json=ASKED, headers=ann)
        assert refused.status_code == 429
        assert 50 <= int(refused.headers["retry-after"]) <= 60
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
        assert 50 <= float(client._parse_retry_after_header(caught.value.response.headers) or 0) <= 60


def test_nobody_is_limited_until_limits_are_set(running: Any) -> None:
    with running.client() as client:
        for _ in range(30):
            response = client.get("/v1/models")
            assert response.status_code == 200
            assert not [name for name in response.headers if "ratelimit" in name]
