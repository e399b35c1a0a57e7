"""Conversations over HTTP: turns as typed events, kept, found, renamed, exported, rated, traced, deleted."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from server.store import conversations
from tests.openai_server import FakeOpenAIServer


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in answer.text.split("\n\n") if "data: " in block]
    return [json.loads(block.split("data: ", 1)[1]) for block in blocks]


def begin(client: httpx.Client) -> str:
    conversation: str = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
    return conversation


def ask(client: httpx.Client, conversation: str, question: str, **more: Any) -> list[dict[str, Any]]:
    return events_of(client.post(f"/v1/conversations/{conversation}/turns", json={"question": question, **more}))


def test_a_conversation_is_kept_with_its_turns(running: Any) -> None:
    with running.client() as client:
        conversation = begin(client)
        events = ask(client, conversation, "How long is parental leave?")
        assert [event["type"] for event in events[:2]] == ["rewrite", "evidence"]
        assert events[-1]["type"] == "done"
        assert events[-1]["answer"] == "".join(event["text"] for event in events if event["type"] == "token")
        ask(client, conversation, "And by fax?")
        kept = client.get(f"/v1/conversations/{conversation}").json()
        assert kept["title"] == "How long is parental leave?"
        assert [turn["question"] for turn in kept["messages"]] == ["How long is parental leave?", "And by fax?"]
        first = kept["messages"][0]
        assert first["status"] == "answered"
        assert first["done"] == events[-1]
        assert first["evidence"] == events[1]
        variants = kept["messages"][1]["rewrite"]["variants"]
        assert any("parental leave" in variant["text"] for variant in variants)


def test_a_further_question_does_not_read_all_turns(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with running.client() as client:
        conversation = begin(client)
        ask(client, conversation, "How long is parental leave?")
        monkeypatch.delattr(conversations, "of_conversation")
        assert ask(client, conversation, "And by fax?")[-1]["type"] == "done"


def test_a_retried_turn_takes_the_place_of_the_old_one(running: Any) -> None:
    with running.client() as client:
        conversation = begin(client)
        old = ask(client, conversation, "How long is leave?")[-1]["turn_id"]
        ask(client, conversation, "And by fax?")
        new = ask(client, conversation, "How long is parental leave?", regenerate_of=old)[-1]
        kept = client.get(f"/v1/conversations/{conversation}").json()["messages"]
        assert [turn["id"] for turn in kept] == [new["turn_id"]]
        assert client.get(f"/v1/turns/{old}").status_code == 200
        assert kept[0]["versions"] == [old, new["turn_id"]]
        shown = client.patch(f"/v1/conversations/{conversation}", json={"shown_turn": old}).json()
        assert [turn["question"] for turn in shown["messages"]] == ["How long is leave?", "And by fax?"]
        missing = client.patch(f"/v1/conversations/{conversation}", json={"shown_turn": "nothing"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "turn_not_found")
        answer = client.post(
            f"/v1/conversations/{conversation}/turns", json={"question": "x", "regenerate_of": "nothing"}
        )
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "turn_not_found"


def test_an_edited_search_text_is_searched_for(running: Any) -> None:
    with running.client() as client:
        events = ask(client, begin(client), "What is it?", search_for="lost badge cost")
        assert events[0]["decision"] == "edited"
        assert events[1]["passages"][0]["document_id"] == "security.md"


def test_conversations_are_listed_searched_renamed_and_deleted(running: Any) -> None:
    with running.client() as client:
        first, second = begin(client), begin(client)
        ask(client, first, "How long is parental leave?")
        ask(client, second, "Are taxi rides refunded?")
        listed = client.get("/v1/conversations").json()["data"]
        assert [conversation["id"] for conversation in listed] == [second, first]
        (found,) = client.get("/v1/conversations", params={"query": "taxi refunded"}).json()["data"]
        assert found["id"] == second
        assert "taxi" in found["excerpt"].lower()
        assert client.patch(f"/v1/conversations/{first}", json={"title": "Leave"}).json()["title"] == "Leave"
        assert client.delete(f"/v1/conversations/{first}").status_code == 204
        assert client.get(f"/v1/conversations/{first}").status_code == 404
        assert client.delete(f"/v1/conversations/{first}").json()["error"]["code"] == "conversation_not_found"


def test_a_conversation_is_exported_as_markdown(running: Any) -> None:
    with running.client() as client:
        conversation = begin(client)
        ask(client, conversation, "How long is parental leave?")
        markdown = client.get(f"/v1/conversations/{conversation}", params={"format": "markdown"})
        assert "attachment" in markdown.headers["content-disposition"]
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "> How long is parental leave?" in markdown.text
        assert "- [1] Parental leave > Length (`leave.md`)" in markdown.text


def test_feedback_is_kept_and_retracted(running: Any) -> None:
    with running.client() as client:
        turn = ask(client, begin(client), "How long is parental leave?")[-1]["turn_id"]
        rating = {"turn_id": turn, "rating": "down", "reason": "incomplete", "comment": "in two parts?"}
        assert client.post("/v1/feedback", json=rating).json()["reason"] == "incomplete"
        kept = client.get(f"/v1/turns/{turn}").json()["feedback"]
        assert (kept["rating"], kept["comment"]) == ("down", "in two parts?")
        back = client.post("/v1/feedback", json={"turn_id": turn, "rating": None})
        assert (back.status_code, back.json()) == (200, None)
        assert client.get(f"/v1/turns/{turn}").json()["feedback"] is None
        assert client.post("/v1/feedback", json={"turn_id": turn, "rating": None}).status_code == 404
        assert client.post("/v1/feedback", json={**rating, "turn_id": "nothing"}).status_code == 404
        assert client.post("/v1/feedback", json={**rating, "rating": "so-so"}).status_code == 400
        assert client.post("/v1/feedback", json={"turn_id": turn}).status_code == 400, "nothing is taken back unsaid"


def test_opened_sources_are_kept_beside_a_rating(running: Any) -> None:
    with running.client() as client:
        turn = ask(client, begin(client), "How long is parental leave?")[-1]["turn_id"]
        client.post("/v1/feedback", json={"turn_id": turn, "rating": "up"})
        for source, status in ((2, 200), (1, 200), (2, 200), (99, 404), (0, 400)):
            said = client.post("/v1/feedback", json={"turn_id": turn, "opened": source})
            assert said.status_code == status, said.text
        kept = client.get(f"/v1/turns/{turn}").json()
        assert (kept["opened"], kept["feedback"]["rating"]) == ([1, 2], "up")
        assert client.post("/v1/feedback", json={"turn_id": "nothing", "opened": 1}).status_code == 404


def test_a_trace_without_content_holds_no_text(serve: Any, settings_for: Any, llm: Any) -> None:
    running = serve(settings_for(llm.url, trace={"content": False}))
    with running.client() as client:
        request = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}
        turn = client.post("/v1/chat/completions", json=request).json()["anaphora"]["turn_id"]
        trace = json.dumps(running.traced(turn), separators=(",", ":"))
        stored = client.get(f"/v1/turns/{turn}").text
    for text in (trace, stored):
        assert "arental" not in text
        assert "ten weeks" not in text
    assert '"completion_tokens":7' in trace


def test_searching_shows_what_a_turn_would_read(running: Any, llm: Any) -> None:
    with running.client() as client:
        request = {"query": "And by fax?", "history": [{"role": "user", "text": "How do I apply for leave?"}], "k": 3}
        found = client.post("/v1/search", json=request).json()
        assert found["passages"][0]["document_id"] == "leave.md"
        assert [passage["n"] for passage in found["passages"]] == [1, 2, 3]
        assert found["passages"][0]["ranks"]
        assert len(found["rewrite"]["variants"]) > 1
        assert llm.requests == []
        assert client.post("/v1/search", json={"query": "x", "collection": "nothing"}).status_code == 404


def test_a_conversation_is_answered_by_the_model_chosen_for_it(
    serve: Any, settings_for: Any, llm: FakeOpenAIServer
) -> None:
    with FakeOpenAIServer(pieces=("Ten weeks, says ", "the large one. [1]")) as large:
        settings = settings_for(
            llm.url,
            llm={"choices": {"Large": f"{large.url}#fake", "Away": "http://127.0.0.1:9/v1"}, "api_key": "secret"},
        )
        with serve(settings).client() as client:
            asked = {"question": "How long is parental leave?"}
            made = client.post("/v1/conversations", json={"model": "Large"}).json()
            url = f"/v1/conversations/{made['id']}"
            assert made["model"] == "Large"
            assert "the large one" in client.post(f"{url}/turns", json=asked).text
            assert large.headers[0].get("authorization") != "Bearer secret", "a key went to another server"
            assert client.patch(url, json={"model": "Huge"}).status_code == 404
            assert client.patch(url, json={"model": ""}).json()["model"] == ""
            assert "lasts ten" in client.post(f"{url}/turns", json=asked).text
            assert llm.headers[0]["authorization"] == "Bearer secret"
            messages = [{"role": "user", "content": "How long is parental leave?"}]
            for model, said in (
                ("Large", "the large one"),
                ("Away", "llm_unreachable"),
                ("Huge", "There are: Large, Away"),
            ):
                body = {"model": "docs", "messages": messages, "anaphora": {"model": model}}
                assert said in client.post("/v1/chat/completions", json=body).text
    for text in ("x", ""):
        assert (
            settings.llm.model_copy(update={"choices": {"x": "vllm"}}).chosen("x").api_key.get_secret_value() == ""
        ), text
