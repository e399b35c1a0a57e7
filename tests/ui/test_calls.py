"""What the page asks beside answers: lists, documents, ratings, uploads, examples."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from server.access import Principal, Role
from server.chat import ConversationSummary, Job, TurnRequest
from server.chat.suggestions import question_of
from server.store.records import FileResult
from tests.serving import Running
from ui.calls import answered, grouped, job_problems, job_words, jobs_html


def call(shared: Running, name: str, data: object, who: Principal | None = None) -> dict[str, Any]:
    """What the page of that principal hears."""
    service = shared.service.as_principal(who) if who else shared.service
    return dict(shared.call(answered(service, name, data)))


def talk(shared: Running, title: str = "", who: Principal | None = None) -> tuple[str, str]:
    """The ids of a new conversation and of its turn."""
    service = shared.service.as_principal(who) if who else shared.service

    async def ask() -> tuple[str, str]:
        made = await service.conversations.create("docs", title)
        request = TurnRequest(question="How long is parental leave?", conversation_id=made.id)
        async for _ in service.turns.ask(request):
            pass
        return made.id, (await service.conversations.get(made.id)).messages[0].id

    return tuple(shared.call(ask()))


def somebody(role: Role) -> Principal:
    return Principal(f"key:{role}", role, role, frozenset({"default"}))


def test_conversations_are_listed_with_escaped_titles(shared: Running) -> None:
    talk(shared, "<b>bold</b>")
    shared.call(shared.service.conversations.create("docs", "Begun and asked nothing"))
    html = call(shared, "list_conversations", {})["html"]
    assert "Begun and asked nothing" not in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "No conversation mentions that." in call(shared, "list_conversations", {"query": "zebra"})["html"]


def test_a_conversation_is_opened_with_its_turns_and_sources(shared: Running) -> None:
    conversation, turn = talk(shared)
    opened = call(shared, "open_conversation", {"id": conversation})
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
        ("read_document", {"collection": "docs", "document": "leave.md", "start": "x"}),
        ("rate", {"turn": "gone", "rating": "up"}),
        ("rate", {"turn": "gone", "rating": "sideways"}),
        ("watch_jobs", {"jobs": []}),
    ],
)
def test_a_call_that_cannot_be_answered_says_why(shared: Running, name: str, data: object) -> None:
    answer = call(shared, name, data)
    assert list(answer) == ["error"]
    assert answer["error"].endswith(".")


def test_deleting_what_is_gone_is_no_error(shared: Running) -> None:
    assert call(shared, "delete_conversation", {"id": "gone"}) == {}


def test_a_damaged_collection_is_named_as_such_without_its_files(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    [whole] = shared.call(shared.service.collections.listing())
    damage: dict[str, object] = {}

    async def listing() -> list[Any]:
        return [whole.model_copy(update=damage)]

    monkeypatch.setattr(shared.service.collections, "listing", listing)
    assert call(shared, "list_collections", {})["collections"][0]["problem"] == ""
    damage |= {"problem": "vectors.npy in /home/anaphora/collections/docs changed", "answers": True}
    problem = call(shared, "list_collections", {})["collections"][0]["problem"]
    assert "an older version answers until it is indexed again" in problem
    assert "/home" not in problem
    damage["answers"] = False
    assert "nothing can be asked" in call(shared, "list_collections", {})["collections"][0]["problem"]


def test_a_rating_is_kept_and_taken_back(shared: Running) -> None:
    conversation, turn = talk(shared)
    kept = lambda: shared.call(shared.service.conversations.get(conversation)).messages[0].feedback  # noqa: E731
    assert call(shared, "rate", {"turn": turn, "rating": "down", "reason": "Wrong", "comment": "No."}) == {}
    assert (kept().rating, kept().comment) == ("down", "No.")
    call(shared, "rate", {"turn": turn, "rating": None})
    assert kept() is None


def test_a_source_is_opened_by_whoever_asked_alone(shared: Running) -> None:
    reader = somebody("reader")
    conversation, turn = talk(shared, who=reader)
    kept = lambda: shared.call(shared.service.conversations.get(conversation)).messages[0].opened  # noqa: E731
    assert call(shared, "note_opened", {"turn": turn, "source": 1}) == {}
    assert kept() == ()
    assert call(shared, "note_opened", {"turn": turn, "source": 1}, reader) == {}
    assert kept() == (1,)


def test_jobs_are_watched_until_they_are_done(shared: Running, documents: Path) -> None:
    job = shared.call(shared.service.collections.index_paths("docs", [documents]))
    shared.finished(job.id)
    last = call(shared, "watch_jobs", {"jobs": {job.id: "leave.md"}})
    assert (last["running"], last["done"]) == (False, [job.id])
    running = job.model_copy(update={"state": "running", "stage": "encoding", "done": 1, "total": 3})
    html = jobs_html([(running, "a <b>.md")])
    assert "<progress" in html
    assert "a &lt;b&gt;.md" in html


def test_a_failed_file_is_told_with_its_reason() -> None:
    file = FileResult(document_id="a.pdf", status="failed", message="The file is damaged; save it again.")
    job = Job(id="1", kind="upload", collection="docs", state="done", files=(file,), created=0, updated=0)
    assert job_words(job) == "not indexed"
    assert job_problems(job) == ["a.pdf: The file is damaged; save it again."]
    # Of an archive the rest may be there all the same.
    rest = FileResult(document_id="b.md", status="indexed", passages=1)
    assert job_words(job.model_copy(update={"files": (*job.files, rest)})) == "ready, 1 passage"
    cut = rest.model_copy(update={"message": "only its first 20,000 passages are searched"})
    assert job_problems(job.model_copy(update={"files": (cut,)})) == [
        "b.md: only its first 20,000 passages are searched"
    ]


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


def test_the_welcome_says_how_much_is_there_or_how_to_fill_it(shared: Running) -> None:
    assert "3 documents " in call(shared, "welcome", {"id": "docs"})["html"]
    assert "anaphora index" in call(shared, "welcome", {"id": "empty"})["html"]
    assert "Ask an operator" in call(shared, "welcome", {"id": "empty"}, somebody("reader"))["html"]


def test_what_the_role_does_not_allow_is_not_shown(shared: Running) -> None:
    reader, agent = somebody("reader"), somebody("agent")
    conversation, _ = talk(shared, "Alarm", reader)
    shown = {}
    for who in (None, reader, agent):
        opened = call(shared, "open_conversation", {"id": conversation}, who)
        actions = {name for name in ("rate", "edit", "retry") if f'data-action="{name}"' in opened["turns"][0]["html"]}
        listed = call(shared, "list_conversations", {"query": "Alarm"}, who)["html"]
        deletes, adds = 'data-action="delete"' in listed, call(shared, "list_collections", {}, who)["adding"]
        shown[who.role if who else "local"] = (opened["own"], actions, deletes, adds)
    assert shown == {
        "local": (True, {"rate", "edit", "retry"}, True, True),
        "reader": (True, {"edit", "retry"}, True, False),
        "agent": (False, {"rate"}, False, False),
    }
