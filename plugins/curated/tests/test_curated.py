"""Answers that people of the house write ahead: who gets them, who may write them, and when they end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from testing.plugin import PluginContract
from tests.openai_server import FakeOpenAIServer
from tests.serving import MakeSettings, Running, Serve

ON: dict[str, object] = {"curated": {"enabled": True}}
CURATED = "/v1/collections/docs/curated"
FAX = "What is the number of the fax at the personnel office?"
ANSWER = "We have **no fax** any more; write to [us](https://example.org)."


@pytest.fixture
def running(serve: Serve, settings_for: MakeSettings, llm: FakeOpenAIServer) -> Running:
    return serve(settings_for(llm.url, plugins=ON, llm={"style": "full"}))


@pytest.fixture
def client(running: Running) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def ask(client: httpx.Client, question: str, **more: Any) -> dict[str, Any]:
    """The last event of a turn; a conversation of its own unless `conversation` names one."""
    conversation = more.pop("conversation", None) or client.post("/v1/conversations", json={}).json()["id"]
    answer = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question, **more})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "done", answer.text
    return {**events[-1], "evidence": next(event for event in events if event["type"] == "evidence")["passages"]}


def write(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post(CURATED, json={"questions": [FAX], "answer": ANSWER, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_who_asks_for_the_same_gets_it_and_no_model_is_asked(client: httpx.Client, llm: FakeOpenAIServer) -> None:
    answer = write(client)
    count = len(llm.requests)
    for question in (FAX, "What is the fax number at the personnel office?"):
        done = ask(client, question)
        assert (done["answer"], done["written"], done["status"]) == (ANSWER, answer["id"], "answered")
    assert len(llm.requests) == count
    assert ask(client, "How long does parental leave last?")["written"] == ""
    (stored,) = client.get(CURATED).json()["data"]
    assert (stored["hits"], stored["keeper"]) == (2, "this machine")
    assert stored["hit"] is not None


def test_a_follow_up_gets_it_by_what_it_leans_on_and_a_program_gets_it_too(client: httpx.Client) -> None:
    made = write(client, questions=["What is the fax number of the personnel office?"])
    conversation = client.post("/v1/conversations", json={}).json()["id"]
    assert ask(client, "How do I apply at the personnel office?", conversation=conversation)["written"] == ""
    assert ask(client, "and what is its fax number?", conversation=conversation)["written"] == made["id"]
    messages = [{"role": "user", "content": "What's the fax number of the personnel office"}]
    answer = client.post("/v1/chat/completions", json={"model": "docs", "messages": messages}).json()
    assert answer["choices"][0]["message"]["content"] == ANSWER


def test_it_can_send_people_elsewhere_and_cites_passages_of_the_documents(client: httpx.Client) -> None:
    text = client.get("/v1/collections/docs/documents/leave.md").json()["text"]
    start = text.index("Apply with form")
    marks = [{"document_id": "leave.md", "start": start, "end": start + 20}]
    write(client, refuses=True, passages=marks)
    done = ask(client, FAX)
    assert (done["status"], done["answer"]) == ("refused", f"{ANSWER} [1]")
    assert [passage["text"] for passage in done["evidence"]] == [text[start : start + 20]]
    assert done["citations"][0]["quote"] == text[start : start + 20]
    for wrong in ({"passages": [{**marks[0], "end": 9999}]}, {"questions": [" "]}):
        assert client.post(CURATED, json={"questions": ["a"], "answer": "b", **wrong}).status_code == 400


def test_a_question_that_people_are_sent_elsewhere_with_waits_for_no_review(client: httpx.Client) -> None:
    write(client, refuses=True)
    ask(client, FAX)
    assert [one["doubts"] for one in client.get("/v1/reviews").json()["data"]] == [[]]


@pytest.mark.extended
def test_after_a_start_no_turn_waits_for_the_vectors_of_all_questions(client: httpx.Client) -> None:
    made = write(client)
    letters = "abcdefghijklmnopqrst"
    for first in letters[:15]:
        write(client, questions=[f"Where does the lamp {first}{first}{second}{second} hang?" for second in letters])
    paraphrase = "What is the fax number at the personnel office?"
    assert [ask(client, paraphrase)["written"] for _ in range(2)] == ["", made["id"]], "the newest come first"


def test_one_that_has_expired_or_is_of_another_scope_is_not_given(client: httpx.Client) -> None:
    answer = write(client, expires=time.time() - 1)
    assert ask(client, FAX)["written"] == ""
    client.post(CURATED, json={"id": answer["id"], "expires": None, "scope": {"version": ["1", "2"]}})
    assert ask(client, FAX)["written"] == ""
    assert ask(client, FAX, where={"version": "3"})["written"] == ""
    assert ask(client, FAX, where={"version": "2"})["written"] == answer["id"]
    (stored,) = client.get(CURATED).json()["data"]
    assert stored["answer"] == ANSWER
    assert client.delete(f"{CURATED}/{answer['id']}").status_code == 204
    assert ask(client, FAX, where={"version": "2"})["written"] == ""


def test_passages_outside_of_the_visitors_filter_keep_the_answer_back(client: httpx.Client) -> None:
    answer = write(client, passages=[{"document_id": "leave.md", "start": 0, "end": 16}])
    assert ask(client, FAX, where={"document_id": "travel.md"})["written"] == ""
    assert ask(client, FAX)["written"] == answer["id"]


def test_it_goes_with_its_collection_its_document_and_who_wrote_it(running: Running, client: httpx.Client) -> None:
    erasing, database = pytest.importorskip("plugins.compliance.erasing"), running.service.core.database
    mark = {"document_id": "leave.md", "start": 0, "end": 16}
    for fields, forget in (
        ({"passages": [mark]}, lambda c: erasing.forget_document(c, "docs", "leave.md", ["no such sentence"])),
        ({"answer": "It is 555-0199."}, lambda c: erasing.forget_document(c, "docs", "x.md", ["555-0199"])),
        ({}, lambda c: erasing.forget_person(c, "local")),
    ):
        write(client, **fields)
        database.write_blocking(forget)
        assert client.get(CURATED).json()["data"] == []
    write(client)
    assert client.delete("/v1/collections/docs").status_code == 204
    assert database.read_blocking(lambda c: c.exec_driver_sql("SELECT count(*) FROM curated").scalar()) == 0


def test_until_it_is_switched_on_nothing_is_given_or_kept(serve: Serve, settings_for: MakeSettings) -> None:
    with serve(settings_for("none")).client() as client:
        for answer in (client.get(CURATED), client.post(CURATED, json={"questions": [FAX], "answer": ANSWER})):
            assert answer.status_code == 403
            assert "plugins.curated.enabled" in answer.text
        assert ask(client, FAX)["written"] == ""


class TestPlugin(PluginContract):
    name = "curated"
