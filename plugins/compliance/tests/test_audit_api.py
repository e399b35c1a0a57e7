"""Whatever is administered, refused, or read of others is in the audit log; what people said is not."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.compliance import audit_log
from server.access import Role
from server.store import credentials
from tests.door import OpenDoor
from tests.serving import MakeSettings, Running, Serve

ASKED = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}


class Key:
    """Somebody's key: `id` as the log names it, `headers` to send it with."""

    def __init__(self, running: Running, name: str, role: Role = "operator", *groups: str) -> None:
        key, secret = running.service.core.database.write_blocking(
            lambda connection: credentials.create_key(connection, name, role, frozenset(groups or ("*",)))
        )
        self.id, self.principal = f"key:{key.id}", key.principal
        self.headers = {"Authorization": f"Bearer {secret}"}


def rows(running: Running, *actions: str) -> list[Any]:
    """The rows of these actions, once everything before is written; those of making the collection left out."""
    running.service.core.database.write_blocking(lambda connection: None)
    rows_found = running.service.core.database.read_blocking(
        lambda connection: audit_log.listing(connection, limit=1000)
    )
    return [row for row in rows_found[1:] if not actions or row.action in actions]


def test_acts_of_administration_are_written_with_who_and_from_where(running: Running) -> None:
    boss = Key(running, "boss")
    with running.client(headers=boss.headers) as client:
        job = client.post(
            "/v1/collections/docs/documents", files={"file": ("parking.md", b"# Parking\n\nIn the cellar.")}
        )
        running.finished(job.json()["id"])
        running.finished(client.delete("/v1/collections/docs/documents/uploads/parking.md").json()["id"])
        assert client.delete("/v1/collections/docs").status_code == 204
    written = rows(running)
    assert [(row.action, row.about, row.collection, row.outcome) for row in written] == [
        ("document.upload", "uploads/parking.md", "docs", "done"),
        ("document.delete", "uploads/parking.md", "docs", "done"),
        ("collection.delete", "docs", "docs", "done"),
    ]
    assert {(row.principal, row.origin) for row in written} == {(boss.id, "127.0.0.1")}
    assert running.service.core.database.read_blocking(audit_log.verify).problem == ""


def test_a_turn_is_written_without_what_was_said(running: Running) -> None:
    ann = Key(running, "ann", "reader", "default")
    with running.client(headers=ann.headers) as client:
        turn = client.post("/v1/chat/completions", json=ASKED).json()["anaphora"]["turn_id"]
        conversation = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
        client.post(f"/v1/conversations/{conversation}/turns", json={"question": "How long is parental leave?"})
    first, second = rows(running, "turn.ask")
    assert (first.principal, first.about, first.collection, first.group) == (ann.id, turn, "docs", "default")
    assert (first.outcome, first.detail) == ("answered", {"tokens": 57, "conversation": ""})
    assert second.detail["conversation"] == conversation
    assert "parental" not in "".join(row.model_dump_json() for row in rows(running)).lower()


def test_questions_are_written_where_the_operator_wants_them(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", plugins={"compliance": {"content": True}}))
    with running.client() as client:
        client.post("/v1/chat/completions", json=ASKED)
    (row,) = rows(running, "turn.ask")
    assert row.detail["question"] == "How long is parental leave?"
    assert (row.principal, row.origin) == ("local", "127.0.0.1")


def test_reading_what_others_said_is_noted(running: Running) -> None:
    ann, agent = Key(running, "ann", "reader", "default"), Key(running, "agent", "agent", "default")
    with running.client() as client:
        conversation = client.post("/v1/conversations", json={}, headers=ann.headers).json()["id"]
        place = f"/v1/conversations/{conversation}"
        answer = client.post(f"{place}/turns", json={"question": "How long is leave?"}, headers=ann.headers)
        turn = answer.headers["x-turn-id"]
        for headers in (ann.headers, agent.headers):
            assert client.get(place, headers=headers).status_code == 200
            assert client.get(f"/v1/turns/{turn}", headers=headers).status_code == 200
        running.call(running.service.as_principal(agent.principal).turns.trace(turn))
        client.get("/v1/conversations?query=leave", headers=agent.headers)
        client.get(place, params={"format": "markdown"}, headers=agent.headers)
        client.delete(place, headers=ann.headers)
    written = rows(running)
    others = [(row.action, row.about) for row in written if row.principal == agent.id]
    assert others == [
        ("conversation.read", conversation),
        ("turn.read", turn),
        ("turn.trace", turn),
        ("conversation.search", ""),
        ("conversation.read", conversation),
        ("conversation.export", conversation),
    ]
    assert [row.action for row in written if row.principal == ann.id] == ["turn.ask", "conversation.delete"]


def test_refusals_are_noted(running: Running) -> None:
    ann, stranger = Key(running, "ann", "reader", "default"), Key(running, "stranger", "reader", "sales")
    with running.client() as client:
        file = {"file": ("parking.md", b"# Parking")}
        refused = client.post("/v1/collections/docs/documents", files=file, headers=ann.headers)
        assert refused.status_code == 403
        assert client.get("/v1/collections/docs/documents", headers=stranger.headers).status_code == 404
    assert [(row.principal, row.action, row.collection, row.outcome) for row in rows(running)] == [
        (ann.id, "documents", "", "forbidden"),
        (stranger.id, "collection.reach", "docs", "not_granted"),
    ]


def test_an_act_that_cannot_be_accounted_for_does_not_happen(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from server.store import StoreFull

    def full(*_: object) -> None:
        raise StoreFull("the disk is full")

    boss = Key(running, "boss")
    monkeypatch.setattr(audit_log, "append", full)
    with running.client(headers=boss.headers) as client:
        assert client.delete("/v1/collections/docs").status_code == 503
        assert client.get("/v1/collections").json()["data"][0]["name"] == "docs"


def test_who_came_and_who_was_refused_is_in_the_log(open_door: OpenDoor) -> None:
    door = open_door(server={"proxies": ["127.0.0.1"]})
    key = door.key()
    with door.client(headers={"X-Forwarded-For": "203.0.113.9"}) as client:
        client.post("/login", data={"key": key})
        client.get("/logout")
        client.get("/logout")
        for n in range(20):
            client.get("/", headers={"Authorization": f"Bearer ana_{n}"})
    acts = [
        (row.principal, row.action, row.origin, row.outcome) for row in door.database.read_blocking(audit_log.listing)
    ]
    principal = f"key:{key.split('_')[1]}"
    assert acts[:2] == [(principal, action, "203.0.113.9", "done") for action in ("session.begin", "session.end")]
    # What is not looked at any more is not written either: nobody fills the log.
    assert acts[2:] == [("", "key.refuse", "203.0.113.9", "refused")] * 10
