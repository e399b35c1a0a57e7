"""A database on a server goes away and comes back, is shared, and is moved to."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from plugins.compliance import audit_log
from plugins.compliance.erasing import forget_document, forget_person
from plugins.scale import copy_database
from plugins.scale.postgres import PostgresServer
from server.access import LOCAL, AuditEntry
from server.api import security
from server.chat import open_service
from server.chat.base import Unavailable
from server.settings import Settings
from server.store import Database, StoreError, conversations, credentials, turns
from tests.databases import PostgresPrograms
from tests.openai_server import FakeOpenAIServer
from tests.rows import ALL, MINE, begin_turn
from tests.server import test_jobs, test_store_conversations
from tests.server.test_api_conversations import ask, begin
from tests.serving import MakeSettings, Serve

for module in (test_jobs, test_store_conversations):
    # The tests of the store, on a database of a server.
    names = [name for name in vars(module) if name.startswith("test_")]
    globals().update({name: getattr(module, name) for name in (*names, "runner") if hasattr(module, name)})


@pytest.fixture
def place(postgres_place: str) -> str:
    """Replace the file of the store's tests."""
    return postgres_place


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreError, match=r"anaphora at 127\.0\.0\.1:1 cannot be reached") as refused:
        Database("postgresql://me:geheim@127.0.0.1:1/anaphora")
    assert "geheim" not in str(refused.value)
    assert (
        "geheim" not in PostgresServer("postgresql://me:geheim@127.0.0.1:1/anaphora?password=geheim", 1).dump_command()
    )
    assert "geheim" not in repr(Settings(database={"url": "postgresql://me:geheim@127.0.0.1:1/anaphora"}))
    with pytest.raises(StoreError, match="written postgresql://"):
        Database("postgresql://me@host:port/anaphora")
    with pytest.raises(ValueError, match="begins with postgresql"):
        Settings(database={"url": "mysql://me@127.0.0.1/anaphora"})


def test_a_database_that_is_not_there_is_named(postgres: PostgresPrograms) -> None:
    with pytest.raises(StoreError, match=r"nothing at .* cannot be reached .*does not exist"):
        Database(postgres.url("nothing"))


def test_texts_with_nul_are_kept_without_it(postgres_place: str) -> None:
    database = Database(postgres_place)
    conversation = database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Ket\0tles"))
    summary = database.read_blocking(lambda c: conversations.summary(c, conversation.id, ALL))
    database.close()
    assert summary is not None
    assert summary.title == "Ket\ufffdtles"


def test_the_audit_log_cannot_be_emptied_at_once(postgres_place: str) -> None:
    database = Database(postgres_place)
    database.write_blocking(lambda c: audit_log.append(c, AuditEntry("local", "key.create")))
    with pytest.raises(IntegrityError, match="only added to"):
        database.write_blocking(lambda c: c.exec_driver_sql("TRUNCATE audit"))
    database.close()


def test_turns_of_many_processes_are_counted_and_follow_each_other(postgres_place: str) -> None:
    servers = [Database(postgres_place) for _ in range(3)]
    talk = servers[0].write_blocking(lambda c: conversations.create(c, "docs", MINE))

    def asks(number: int) -> None:
        for n in range(10):
            key = f"{number}-{n}"
            servers[number].write_blocking(
                lambda c, key=key: (
                    begin_turn(c, key, talk.id, key),
                    audit_log.append(c, AuditEntry("local", "turn.ask", key)),
                )
            )

    threads = [threading.Thread(target=asks, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    stored = servers[0].read_blocking(lambda c: turns.of_conversation(c, talk.id, ALL))
    # One line: each follows the one that was begun before it, whichever process began that.
    assert [turn.parent for turn in stored] == [None, *(turn.id for turn in stored[:-1])]
    assert len(stored) == 30
    report = servers[1].read_blocking(audit_log.verify)
    assert (report.n, report.problem) == (30, "")
    for server in servers:
        server.close()


def test_a_real_server_answers_from_it_and_outlives_its_going_away(
    postgres: PostgresPrograms,
    postgres_place: str,
    serve: Serve,
    settings_for: MakeSettings,
    llm: FakeOpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = serve(settings_for(llm.url, database={"url": postgres_place}))
    with running.client() as client:
        talk = begin(client)
        first = ask(client, talk, "How long is parental leave?")[-1]
        old = ask(client, talk, "And by fax?")[-1]["turn_id"]
        new = ask(client, talk, "And by fax?", regenerate_of=old)[-1]["turn_id"]
        assert client.get(f"/v1/conversations/{talk}").json()["messages"][1]["versions"] == [old, new]
        changed = client.patch(f"/v1/conversations/{talk}", json={"shown_turn": old}).json()
        assert changed["messages"][-1]["id"] == old
        rating = {"turn_id": first["turn_id"], "rating": "up", "comment": "Thanks."}
        assert client.post("/v1/feedback", json=rating).status_code == 200
        assert len(client.get("/v1/conversations", params={"query": "PARENTAL"}).json()["data"]) == 1
        assert client.get("/v1/statistics").status_code == 200
        undone = [
            client.post(f"/v1/reviews/{old}", json=review).status_code
            for review in ({"verdict": "corrected", "rewrite": "Can it be sent by fax?"}, {"verdict": "undone"})
        ]
        assert undone == [201, 201]
        doubtful = client.get("/v1/reviews", params={"query": "FAX"}).json()["data"]
        assert [row["turn_id"] for row in doubtful] == [old]

        assert client.post(f"/v1/reviews/{old}", json={"verdict": "approved"}).status_code == 201
        assert [row["turn_id"] for row in client.get("/v1/reviews?state=done").json()["data"]] == [old]
        traced = running.service.core.database.read_blocking(lambda c: turns.traced(c, ALL, "docs", 9))
        assert len(traced) == 3
        assert all(row.seconds > 0 for row in traced)

        # The guard, too, says that it cannot look anything up, in words for strangers; here it need not look.
        monkeypatch.setattr(security, "REMEMBERED_SECONDS", 600.0)
        postgres.stop()
        try:
            refused = client.post("/v1/conversations", json={})
            assert refused.status_code == 503
            assert "cannot be reached" in refused.json()["error"]["message"]
            assert client.get("/ready").status_code == 503
        finally:
            postgres.start()
        assert client.get(f"/v1/conversations/{talk}").json()["messages"][-1]["id"] == old

        # A server that goes while a turn is answered does not stop the answer.
        llm.pieces, llm.pace = ["word "] * 600, 0.02
        with client.stream("POST", f"/v1/conversations/{talk}/turns", json={"question": "And by mail?"}) as answer:
            lines = answer.iter_lines()
            next(line for line in lines if '"token"' in line)
            postgres.stop()
            llm.pace = 0.0
            rest = list(lines)
        postgres.start()
        assert "not saved" in rest[-1] or "not saved" in "".join(rest[-3:])

        monkeypatch.setattr(security, "REMEMBERED_SECONDS", 0.0)
        _, secret = running.call(running.service.core.database.write(lambda c: credentials.create_key(c, "desk")))
        assert client.get("/v1/conversations").status_code == 401
        assert client.post("/login", data={"key": secret}).status_code == 303
        assert client.delete(f"/v1/conversations/{talk}").status_code == 204
        assert client.get(f"/v1/conversations/{talk}").status_code == 404


def test_a_write_of_one_row_waits_for_no_other_process(postgres_place: str) -> None:
    first, other = Database(postgres_place), Database(postgres_place)
    held, go, done = threading.Event(), threading.Event(), threading.Event()
    holding = threading.Thread(target=lambda: first.write_blocking(lambda _: (held.set(), go.wait(300))))
    holding.start()
    assert held.wait(120)
    other.write_later(lambda c: (turns.checkpoint(c, "t", "so far"), done.set()), alone=False)
    assert done.wait(120)
    later = threading.Thread(target=lambda: other.write_blocking(lambda _: done.clear()))
    later.start()
    later.join(0.2)
    assert done.is_set(), "others wait until it is committed"
    go.set()
    holding.join(120)
    later.join(120)
    assert not done.is_set()
    first.close()
    other.close()


def test_a_service_does_not_start_without_it() -> None:
    settings = Settings(database={"url": "postgresql://me:geheim@127.0.0.1:1/anaphora"})

    async def start() -> None:
        async with open_service(settings, warm=False):
            raise AssertionError

    with pytest.raises(Unavailable, match="cannot be reached"):
        asyncio.run(start())


def test_a_file_is_moved_with_every_row_and_numbers_go_on(tmp_path: Path, postgres_place: str) -> None:
    file = tmp_path / "anaphora.db"
    old = Database(file)
    talk = old.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Kettles"))
    old.write_blocking(
        lambda c: audit_log.append(c, *(AuditEntry("local", "key.create", at=float(n)) for n in range(9)))
    )
    old.write_blocking(lambda c: audit_log.trim(c, 5.0, 100))
    _, secret = old.write_blocking(lambda c: credentials.create_key(c, "desk"))
    before = old.read_blocking(audit_log.verify)
    old.close()
    assert copy_database(file, postgres_place) == 1 + before.rows + 1
    with pytest.raises(StoreError, match="not empty: there are"):
        copy_database(file, postgres_place)
    new = Database(postgres_place)
    assert new.read_blocking(audit_log.verify) == before
    assert new.read_blocking(lambda c: credentials.check_key(c, secret)) is not None
    new.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Pots"))
    listed = new.read_blocking(lambda c: conversations.search(c, "", 9, 0, ALL))
    assert [row.title for row in listed] == ["Pots", "Kettles"]
    assert [row.id for row in new.read_blocking(lambda c: conversations.search(c, "kett", 9, 0, ALL))] == [talk.id]
    assert new.write_blocking(lambda c: forget_document(c, "docs", "a.md", ["Kettles"])).conversations == 1
    assert new.write_blocking(lambda c: forget_person(c, LOCAL.id)).conversations == 2
    assert "write-ahead log" in new.compact()
    new.close()
