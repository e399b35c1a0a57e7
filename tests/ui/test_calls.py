"""What the page asks beside answers: lists, documents, ratings, uploads, examples."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from server.chat import ConversationSummary, Job, Principal, TurnRequest
from server.chat.documents import pick, question_of
from server.store.records import FileResult
from tests.ui.fake_service import Answer, FakeService, Text
from ui.calls import answered, grouped, job_problems, job_words


@pytest.fixture
def service() -> FakeService:
    texts = [Text("a.md", "A", [(("How does the alarm stop?",), "Hold the button. It stops.")])]
    return FakeService(texts, {"q": Answer("Hold [1].")})


def call(service: FakeService, name: str, data: object) -> dict[str, Any]:
    return asyncio.run(answered(service, name, data))


async def talk(service: FakeService, title: str = "") -> tuple[str, str]:
    conversation = await service.conversations.create("docs", title)
    async for _ in service.turns.ask(TurnRequest(question="q", conversation_id=conversation.id)):
        pass
    return conversation.id, (await service.conversations.get(conversation.id)).messages[0].id


def test_conversations_are_listed_with_escaped_titles(service: FakeService) -> None:
    asyncio.run(talk(service, "<b>bold</b>"))
    html = call(service, "list_conversations", {})["html"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "No conversation mentions that." in call(service, "list_conversations", {"query": "zebra"})["html"]


def test_a_conversation_is_opened_with_its_turns_and_sources(service: FakeService) -> None:
    conversation, turn = asyncio.run(talk(service))
    opened = call(service, "open_conversation", {"id": conversation})
    assert [one["turn"] for one in opened["turns"]] == [turn]
    assert "<mark" in opened["turns"][0]["sources"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("open_conversation", {"id": "gone"}),
        ("open_conversation", {}),
        ("open_conversation", None),
        ("rename_conversation", {"id": "x", "title": ""}),
        ("read_document", {"collection": "docs", "document": "gone.md"}),
        ("read_document", {"collection": "docs", "document": "a.md", "start": "x"}),
        ("rate", {"turn": "gone", "rating": "up"}),
        ("rate", {"turn": "gone", "rating": "sideways"}),
        ("watch_jobs", {"jobs": []}),
    ],
)
def test_a_call_that_cannot_be_answered_says_why(service: FakeService, name: str, data: object) -> None:
    answer = call(service, name, data)
    assert list(answer) == ["error"]
    assert answer["error"].endswith(".")


def test_what_a_call_does_not_ask_for_is_passed_over(service: FakeService) -> None:
    assert call(service, "list_conversations", {"query": "", "self": "x", "of a page to come": 1}).keys() == {"html"}


def test_deleting_what_is_gone_is_no_error(service: FakeService) -> None:
    assert call(service, "delete_conversation", {"id": "gone"}) == {}


def test_a_damaged_collection_is_named_as_such_without_its_files(service: FakeService) -> None:
    assert call(service, "list_collections", {})["collections"][0]["problem"] == ""
    service.damage = {"problem": "vectors.npy in /home/anaphora/collections/docs changed"}
    problem = call(service, "list_collections", {})["collections"][0]["problem"]
    assert "an older version answers until it is indexed again" in problem
    assert "/home" not in problem
    service.damage["answers"] = False
    assert "nothing can be asked" in call(service, "list_collections", {})["collections"][0]["problem"]


def test_a_rating_is_kept_and_taken_back(service: FakeService) -> None:
    _, turn = asyncio.run(talk(service))
    assert call(service, "rate", {"turn": turn, "rating": "down", "reason": "Wrong", "comment": "No."}) == {}
    [(_, turns)] = service.store.values()
    assert turns[0].feedback is not None
    assert (turns[0].feedback.rating, turns[0].feedback.comment) == ("down", "No.")
    call(service, "rate", {"turn": turn, "rating": None})
    assert turns[0].feedback is None


def test_jobs_are_watched_until_they_are_done(service: FakeService) -> None:
    first = call(service, "watch_jobs", {"jobs": {"a.md": "a <b>.md"}})
    assert first["running"]
    assert "<progress" in first["html"]
    assert "a &lt;b&gt;.md" in first["html"]
    call(service, "watch_jobs", {"jobs": {"a.md": "a.md"}})
    last = call(service, "watch_jobs", {"jobs": {"a.md": "a.md"}})
    assert not last["running"]
    assert "ready, 7 passages" in last["html"]


def test_a_failed_file_is_told_with_its_reason() -> None:
    file = FileResult(document_id="a.pdf", status="failed", message="The file is damaged; save it again.")
    job = Job(id="1", kind="upload", collection="docs", state="done", files=(file,), created=0, updated=0)
    assert job_words(job) == "not indexed"
    assert job_problems(job) == ["a.pdf: The file is damaged; save it again."]
    # Of an archive the rest may be there all the same.
    rest = FileResult(document_id="b.md", status="indexed", passages=1)
    assert job_words(job.model_copy(update={"files": (*job.files, rest)})) == "ready, 1 passage"


def test_conversations_are_grouped_by_day() -> None:
    now = datetime(2026, 5, 10, 12)
    ages = {"Today": 0, "Yesterday": 1, "Last seven days": 4, "Earlier": 40}
    some = [
        ConversationSummary(
            id=name, title="", collection="", created=0, turns=0, updated=(now - timedelta(days=days)).timestamp()
        )
        for name, days in ages.items()
    ]
    assert [(name, [one.id for one in entries]) for name, entries in grouped(some, now).items()] == [
        (name, [name]) for name in ages
    ]


@pytest.mark.parametrize(
    ("heading", "question"),
    [
        ("What is a leg?", "What is a leg?"),
        ("3.1 Can `uvicorn` reload? {#uv}", "Can uvicorn reload?"),
        ("What is covered", "What is covered?"),
        ("¿Cómo se apaga la alarma?", "¿Cómo se apaga la alarma?"),
        ("アラームはどう止めますか？", "アラームはどう止めますか？"),
        ("Turn off the alarm", None),
        ("How long it lasts", None),
        ("Query Parameters", None),
        ("In a hurry?", None),
        ("Why?", None),
        ("", None),
        ("Why " + "a" * 80 + " b?", None),
    ],
)
def test_only_headings_that_are_questions_are_asked(heading: str, question: str | None) -> None:
    assert question_of(heading) == question


def test_examples_come_from_different_documents() -> None:
    texts = [
        Text("a.md", "A", [(("Colour table",), "x"), (("Why mix colours?",), "x"), (("Is red red?",), "x")]),
        Text("b.md", "B", [(("What is a mill",), "x")]),
        Text("c.md", "C", [((), "x")]),
    ]
    found = [(one.question, one.title) for one in pick([text.document() for text in texts], 3)]
    assert found == [("Why mix colours?", "A"), ("What is a mill?", "B"), ("Is red red?", "A")]


def test_an_empty_collection_says_how_to_fill_it(service: FakeService) -> None:
    service.texts = []
    assert "anaphora index" in call(service, "welcome", {"id": "docs"})["html"]
    assert "How does the alarm stop?" not in call(service, "welcome", {"id": "docs"})["html"]


def test_the_welcome_asks_about_what_is_there(service: FakeService) -> None:
    html = call(service, "welcome", {"id": "docs"})["html"]
    assert "How does the alarm stop?" in html
    assert "1 document " in html


def test_what_the_role_does_not_allow_is_not_shown(service: FakeService) -> None:
    conversation, _ = asyncio.run(talk(service, "Alarm"))
    assert 'data-action="rate"' in call(service, "open_conversation", {"id": conversation})["turns"][0]["html"]
    assert call(service, "list_collections", {})["adding"]
    summary, turns = service.store[conversation]
    service.store[conversation] = summary.model_copy(update={"own": False}), turns
    assert 'data-action="delete"' in call(service, "list_conversations", {})["html"]
    service.principal = Principal("key:1", "desk", "reader", frozenset({"default"}))
    opened = call(service, "open_conversation", {"id": conversation})
    assert not opened["own"]
    for action in ("rate", "feedback", "edit", "retry"):
        assert f'data-action="{action}"' not in opened["turns"][0]["html"]
    assert 'data-action="delete"' not in call(service, "list_conversations", {})["html"]
    assert not call(service, "list_collections", {})["adding"]
    service.texts.clear()
    assert "Ask an operator" in call(service, "welcome", {"id": "docs"})["html"]
