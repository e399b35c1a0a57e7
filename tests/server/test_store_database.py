"""The database file: migrations, many threads, a killed process, a full disk, keys, jobs."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Connection, update

from server.access import Principal
from server.store import (
    Database,
    Runner,
    StoreError,
    StoreFull,
    conversations,
    credentials,
    jobs,
    turns,
)
from server.store.records import FileResult, Job, JobKind
from server.store.schema import KEYS
from tests.rows import ALL, MINE, begin_turn

WRITER = """
import sys, uuid
from pathlib import Path
from server.access import Ownership
from server.store import Database, Runner, conversations, turns

home, mine = Path(sys.argv[1]), Ownership("local", "default")
database, runner = Database(home / "anaphora.db"), Runner(home / "run")
conversation = database.write_blocking(lambda c: conversations.create(c, "docs", mine))
print(conversation.id, flush=True)
while True:
    turn_id = uuid.uuid4().hex
    database.write_blocking(lambda c: turns.begin(c, dict(id=turn_id, conversation_id=conversation.id,
        collection="docs", question="q " * 500, runner=runner.id, owner=mine.owner, group_name=mine.group), title="t"))
    print("begun", turn_id, flush=True)
    database.write_blocking(lambda c: turns.checkpoint(c, turn_id, "so far"))
    print("shown", turn_id, flush=True)
    database.write_blocking(lambda c: turns.finish(c, turn_id, status="answered", answer="a " * 2000,
        rewrite=None, evidence=None, ending=None, trace=None))
    print("ended", turn_id, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_turn(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    conversation_id = writer.stdout.readline().strip()
    lines = [writer.stdout.readline() for _ in range(150)]
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.stdout.close()
    writer.wait()
    acknowledged = dict[str, str]()
    for line in lines:
        if line.endswith("\n"):
            state, turn_id = line.split()
            acknowledged[turn_id] = state
    database, runner = Database(tmp_path / "anaphora.db"), Runner(tmp_path / "run")
    database.write_blocking(runner.mark_interrupted)
    detail = database.read_blocking(lambda c: conversations.detail(c, conversation_id, ALL))
    assert detail is not None
    found = {turn.id: turn for turn in detail.messages}
    assert len(acknowledged) > 40
    assert set(acknowledged) <= set(found)
    assert all(found[turn_id].status == "answered" for turn_id, state in acknowledged.items() if state == "ended")
    assert all(found[turn_id].answer for turn_id, state in acknowledged.items() if state == "shown")
    assert not [turn for turn in found.values() if turn.status == "pending"]
    assert database.read_blocking(lambda c: c.exec_driver_sql("PRAGMA integrity_check").fetchone()[0]) == "ok"
    runner.close()
    database.close()


def test_what_a_living_process_has_begun_is_left_alone(place: Path | str, tmp_path: Path) -> None:
    database, mine, other = Database(place), Runner(tmp_path / "run"), Runner(tmp_path / "run")
    conversation = database.write_blocking(lambda c: conversations.create(c, "docs", MINE))
    for turn_id, runner in (("a", other.id), ("b", "dead"), ("c", mine.id)):
        database.write_blocking(
            lambda c, turn_id=turn_id, runner=runner: begin_turn(c, turn_id, conversation.id, runner=runner)
        )
    assert database.write_blocking(mine.mark_interrupted) == 1
    other.close()
    assert database.write_blocking(mine.mark_interrupted) == 1
    turn = database.read_blocking(lambda c: turns.find(c, "c", ALL))
    assert turn is not None
    assert turn.status == "pending"
    mine.close()
    database.close()


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "anaphora.db")
    kept = database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "kept"))
    database.write_blocking(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1").fetchone()[0])

    def fill(connection: Connection) -> None:
        for _ in range(1000):
            conversations.create(connection, "docs", MINE, "x" * 80)

    with pytest.raises(StoreFull, match="Free some space"):
        database.write_blocking(fill)
    assert [c.id for c in database.read_blocking(lambda c: conversations.search(c, "", 10, 0, ALL))] == [kept.id]
    database.write_blocking(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 100000").fetchone()[0])
    database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "works again"))
    database.close()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    database = Database(tmp_path / "anaphora.db")
    assert stat.S_IMODE((tmp_path / "anaphora.db").stat().st_mode) == 0o600
    database.close()


def test_a_newer_or_damaged_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "anaphora.db"
    Database(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="newer Anaphora"):
        Database(path)
    (tmp_path / "broken.db").write_bytes(b"not a database, and long enough to be read as one" * 100)
    with pytest.raises(StoreError, match="move the file"):
        Database(tmp_path / "broken.db")


def test_a_failed_write_leaves_nothing_half_done(place: Path | str) -> None:
    database = Database(place)

    def half(connection: Connection) -> None:
        conversations.create(connection, "docs", MINE, "half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.write_blocking(half)
    assert database.read_blocking(lambda c: conversations.search(c, "", 10, 0, ALL)) == []
    database.close()


def test_a_cancelled_wait_still_commits(place: Path | str) -> None:
    database = Database(place)
    begun, go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        conversations.create(connection, "docs", MINE, "slow")
        begun.set()
        go.wait(120)

    async def main() -> None:
        tasks = [asyncio.create_task(database.write(slow)) for _ in range(3)]
        assert await asyncio.to_thread(begun.wait, 30)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True)
        )

    asyncio.run(main())
    go.set()
    database.close()
    again = Database(place)
    assert len(again.read_blocking(lambda c: conversations.search(c, "", 10, 0, ALL))) == 3
    again.close()


def test_a_key_opens_until_it_is_revoked_and_is_not_kept(place: Path | str, tmp_path: Path) -> None:
    database = Database(place)
    assert not database.read_blocking(credentials.any_key)
    made, secret = database.write_blocking(lambda c: credentials.create_key(c, "laptop"))
    assert database.read_blocking(lambda c: credentials.check_key(c, secret)) == made
    for wrong in ("", "ana_", secret[:-1], secret + "x", f"ana_{made.id}_", "ana_00000000_x", "\udce9"):
        assert database.read_blocking(lambda c, wrong=wrong: credentials.check_key(c, wrong)) is None  # type: ignore[misc]
    database.write_blocking(lambda c: credentials.note_key_use(c, made.id))
    assert database.read_blocking(credentials.list_keys)[0].used is not None
    assert database.write_blocking(lambda c: credentials.revoke_key(c, made.id))
    assert not database.write_blocking(lambda c: credentials.revoke_key(c, made.id))
    assert database.read_blocking(lambda c: credentials.check_key(c, secret)) is None
    assert not database.read_blocking(credentials.any_key)
    assert database.read_blocking(credentials.key_required)
    database.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("anaphora.db*"))
    assert secret.encode() not in stored
    assert secret.split("_", 2)[2].encode() not in stored


def test_a_key_has_a_role_groups_and_an_end(place: Path | str) -> None:
    database = Database(place)
    made, secret = database.write_blocking(
        lambda c: credentials.create_key(c, "desk", "agent", frozenset({"support"}), time.time() + 60)
    )
    checked = database.read_blocking(lambda c: credentials.check_key(c, secret))
    assert checked == made
    assert checked is not None
    principal = checked.principal
    assert principal == Principal(f"key:{made.id}", "desk", "agent", frozenset({"support"}))
    assert principal.has("reader")
    assert not principal.has("operator")
    assert principal.in_group("support")
    assert not principal.in_group("sales")
    session = database.write_blocking(lambda c: credentials.begin_session(c, principal, 60, made.id))
    assert database.read_blocking(lambda c: credentials.find_session(c, session)) == principal
    database.write_blocking(lambda c: c.execute(update(KEYS).values(expires=time.time() - 1)))
    assert database.read_blocking(lambda c: credentials.check_key(c, secret)) is None
    assert database.read_blocking(lambda c: credentials.find_session(c, session)) is None
    assert not database.read_blocking(credentials.any_key)
    assert database.read_blocking(credentials.key_required)
    database.close()


def test_a_mark_taken_in_one_thread_is_let_go_of_in_another(tmp_path: Path) -> None:
    async def take_and_leave() -> Runner:
        runner = await asyncio.to_thread(Runner, tmp_path / "run")
        runner.close()
        return runner

    mine, other = asyncio.run(take_and_leave()), Runner(tmp_path / "run")
    assert not other.is_alive(mine.id)
    held = {Path(file.path).name for file in psutil.Process().open_files()}
    assert any(other.id in name for name in held)
    assert not any(mine.id in name for name in held)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("index", "Start it again"),
        ("upload", "goes on by itself"),
        ("delete", "goes on by"),
        ("sync", "when it is due"),
    ],
)
def test_a_job_is_remembered_and_marked_when_its_process_died(
    place: Path | str, tmp_path: Path, kind: JobKind, said: str
) -> None:
    database = Database(place)
    job = Job(id="j", kind=kind, collection="docs", state="queued", created=1.0, updated=1.0)
    database.write_blocking(lambda c: jobs.add(c, job, "dead", MINE))
    running = job.model_copy(
        update={"state": "running", "done": 1, "total": 2, "files": (FileResult(document_id="a", status="failed"),)}
    )
    database.write_blocking(lambda c: jobs.save(c, running, "dead"))
    assert database.read_blocking(lambda c: jobs.find(c, "j", ALL)) == running
    runner = Runner(tmp_path / "run")
    database.write_blocking(runner.mark_interrupted)
    found = database.read_blocking(lambda c: jobs.listing(c, "docs", ALL))[0]
    assert (found.state, found.done, found.finished) == ("interrupted", 1, True)
    assert said in found.message
    runner.close()
    database.close()


def test_a_read_sees_one_state_whatever_is_written_meanwhile(place: Path | str) -> None:
    database = Database(place)
    made = database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "Kettles"))

    def work(connection: Connection) -> list[str]:
        before = conversations.search(connection, "kettles", 5, 0, ALL)
        database.write_blocking(lambda c: conversations.delete(c, made.id, ALL))
        return [found.id for found in (*before, *conversations.search(connection, "kettles", 5, 0, ALL))]

    assert database.read_blocking(work) == [made.id, made.id]
    assert database.read_blocking(lambda c: conversations.search(c, "kettles", 5, 0, ALL)) == []
    database.close()
