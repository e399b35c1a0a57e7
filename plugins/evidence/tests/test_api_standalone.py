"""`POST /v1/standalone`: a quote made readable by rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

    from tests.serving import MakeSettings, Serve

PAGE = """# Boilers

## Valve

However, we set the SRV to 4 bar (see Table 2). It never opens below that.

## Parts

The safety release valve (SRV) opens by itself.
"""
QUOTE = "However, we set the SRV to 4 bar (see Table 2)."
READABLE = "we [the authors of “Boilers”] set the SRV [safety release valve] to 4 bar."


@pytest.fixture
def client(settings_for: MakeSettings, serve: Serve) -> Iterator[httpx.Client]:
    running = serve(settings_for("none"))
    with running.client() as client:
        job = client.post("/v1/collections/docs/documents", files={"file": ("boilers.md", PAGE.encode())}).json()
        assert running.finished(job["id"]).state == "done"
        yield client


def place(client: httpx.Client, quote: str = QUOTE) -> dict[str, Any]:
    document = "uploads/boilers.md"
    text = client.get(f"/v1/collections/docs/documents/{document}").json()["text"]
    start = text.index(quote)
    return {"document_id": document, "start": start, "end": start + len(quote)}


def test_a_quote_is_made_readable(client: httpx.Client) -> None:
    body = place(client)
    first = client.post("/v1/standalone", json=body).json()
    assert first["text"] == READABLE
    assert "".join(span["text"] for span in first["spans"] if span["kind"] != "added") == QUOTE
    assert {span["kind"] for span in first["spans"]} == {"kept", "added", "removed"}
    assert [question["question"] for question in first["questions"]] == ["Who is speaking?", "What does SRV stand for?"]
    assert first["refused"] == ""


def test_the_quote_of_a_turn_is_that_of_its_source(client: httpx.Client) -> None:
    conversation = client.post("/v1/conversations", json={}).json()["id"]
    asked_turn = client.post(f"/v1/conversations/{conversation}/turns", json={"question": "How is the SRV set?"})
    turn = client.get(f"/v1/turns/{asked_turn.headers['x-turn-id']}").json()
    cited = turn["done"]["citations"][0]
    quote = client.post("/v1/standalone", json={"turn_id": turn["id"], "n": cited["n"]}).json()
    assert (quote["document_id"], quote["start"], quote["end"]) == (
        cited["document_id"], cited["start"], cited["end"]
    )  # fmt: skip
    assert client.post("/v1/standalone", json={"turn_id": turn["id"], "n": 99}).status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"document_id": "uploads/gone.md"}, 404),
        ({"start": 50, "end": 50}, 400),
        ({"end": 10**6, "start": 10**6 - 5}, 400),
        ({"start": 0, "end": 9000}, 400),
        ({"turn_id": "x", "n": 1}, 400),
        ({"document_id": ""}, 400),
        ({"collection": "nothing"}, 404),
    ],
)
def test_what_is_no_quote_is_refused(client: httpx.Client, change: dict[str, Any], status: int) -> None:
    assert client.post("/v1/standalone", json={**place(client), **change}).status_code == status
