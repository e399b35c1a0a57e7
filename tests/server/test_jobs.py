"""Jobs in the background: their order, and what is left of them once they have finished."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from index.errors import IndexingCancelled
from server.jobs import UNSTORED, JobProgress, JobRunner
from server.store import Database, Runner, StoreError, jobs
from server.store.jobs import ATTEMPTS, GIVEN_UP, NO_WORKER, WORKERS
from server.store.records import FileResult, Job
from tests.eventually import eventually
from tests.rows import ALL, MINE


@pytest.fixture
def runner(database: Database, tmp_path: Path) -> Iterator[JobRunner]:
    mark = Runner(tmp_path / "run")
    runner = JobRunner(database, mark)
    yield runner
    runner.close()
    mark.close()


def files(_: JobProgress) -> list[FileResult]:
    return [FileResult(document_id="a", status="indexed", passages=3)]


def finished(runner: JobRunner, job: Job) -> Job:
    def ended() -> Job | None:
        stored = runner.find(job.id, ALL)
        return stored if stored is not None and stored.finished else None

    ended_job = eventually(ended)
    assert ended_job is not None
    return ended_job


def job_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("job-")]


def test_nothing_of_a_finished_job_stays_in_memory(runner: JobRunner) -> None:
    made = [runner.submit("index", f"c{n}", files, MINE) for n in range(20)]
    assert all(
        finished(runner, job).files == (FileResult(document_id="a", status="indexed", passages=3),) for job in made
    )
    for thread in list(runner._threads):
        thread.join(120)
    assert job_threads() == []
    assert (runner._tasks, runner._queues, runner._threads) == ({}, {}, set())
    assert [job.state for job in runner.listing(ALL)] == ["done"] * 20


def test_a_job_that_ends_while_it_is_looked_up_has_ended(
    runner: JobRunner, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    job = runner.submit("index", "c", lambda _: (go.wait(120), files(_))[1], MINE)
    eventually(lambda: (stored := runner.find(job.id, ALL)) and stored.state == "running")
    read = database.read_blocking

    def read_then_end(*arguments: object) -> object:
        """Read the row of the running job, and return it only when the job has ended and is forgotten."""
        stored = read(*arguments)  # type: ignore[arg-type]
        go.set()
        eventually(lambda: job.id not in runner._tasks)
        return stored

    monkeypatch.setattr(database, "read_blocking", read_then_end)
    looked_up = runner.find(job.id, ALL)
    assert looked_up is not None
    assert looked_up.state == "done"


def test_a_job_whose_end_is_stored_while_a_collection_is_looked_at_works_on_it_no_more(
    runner: JobRunner, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = threading.Event()
    write, read = database.write_blocking, database.read_blocking

    def write_late(work: object, *arguments: object) -> object:
        if work is jobs.save and getattr(arguments[0], "finished", False):
            store.wait(120)
        return write(work, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "write_blocking", write_late)
    job = runner.submit("index", "c", files, MINE)
    assert finished(runner, job).state == "done"

    def read_then_store(*arguments: object) -> object:
        """Read what is unfinished, and return it only when the end is stored and the job forgotten."""
        stored = read(*arguments)  # type: ignore[arg-type]
        store.set()
        eventually(lambda: job.id not in runner._tasks)
        return stored

    monkeypatch.setattr(database, "read_blocking", read_then_store)
    assert runner.busy("c") is None


def test_jobs_of_a_collection_follow_one_another_and_other_collections_do_not_wait(runner: JobRunner) -> None:
    go, order = threading.Event(), list[str]()

    def slow(_: JobProgress) -> list[FileResult]:
        go.wait(120)
        order.append("slow")
        return []

    def quick(_: JobProgress) -> list[FileResult]:
        order.append("quick")
        return []

    first, second = runner.submit("index", "a", slow, MINE), runner.submit("index", "a", quick, MINE)
    finished(runner, runner.submit("index", "b", quick, MINE))
    assert runner.busy("a") == first.id
    go.set()
    finished(runner, second)
    assert order == ["quick", "slow", "quick"]
    assert runner.busy("a") is None


def test_servers_take_turns_at_a_collection_and_cancel_each_other_s_jobs(
    database: Database, runner: JobRunner, tmp_path: Path
) -> None:
    mark = Runner(tmp_path / "run")
    other = JobRunner(database, mark)
    go, order = threading.Event(), list[str]()

    def endless(progress: JobProgress) -> list[FileResult]:
        order.append("first")
        while not progress.cancelled():
            progress.report("reading", len(order), 9)
            go.wait(0.6)
        raise IndexingCancelled("stopped")

    def quick(_: JobProgress) -> list[FileResult]:
        order.append("second")
        return []

    first = runner.submit("index", "a", endless, MINE)
    eventually(lambda: order)
    second, never = other.submit("index", "a", quick, MINE), other.submit("index", "b", quick, MINE)
    finished(other, never)
    assert order == ["first", "second"], "another collection does not wait"
    assert runner.busy("a") == other.busy("a") == first.id
    dropped = other.submit("index", "a", quick, MINE)
    runner.cancel(dropped.id)
    other.cancel(first.id)
    finished(other, second)
    assert finished(runner, first).state == "cancelled"
    assert finished(other, dropped).state == "cancelled"
    assert order == ["first", "second", "second"]
    other.close()
    mark.close()


def test_the_end_of_a_job_is_stored_once_the_database_takes_it(
    database: Database, runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreError("The database is away.")

    go = threading.Event()

    def wait(progress: JobProgress) -> list[FileResult]:
        go.wait(120)
        return files(progress)

    job = runner.submit("index", "a", wait, MINE)
    with monkeypatch.context() as outage:
        outage.setattr(database, "write_blocking", away)
        go.set()
        finished(runner, job)
    runner.settle()
    stored = database.read_blocking(lambda c: jobs.find(c, job.id, ALL))
    assert stored is not None
    assert stored.state == "done"
    assert runner._tasks == {}


def no_work(_: JobProgress) -> list[FileResult]:
    raise AssertionError("this process does no jobs")


@contextmanager
def beside_workers(database: Database, tmp_path: Path, prefix: str = "") -> Iterator[tuple[Runner, JobRunner]]:
    """A server that leaves its jobs to workers, or with `worker-` one of these; with its mark."""
    mark = Runner(tmp_path / "run", prefix)
    runner = JobRunner(database, mark, hands_on=True)
    yield mark, runner
    runner.close()
    mark.close()


def states(runner: JobRunner, *made: Job) -> list[str]:
    return [job.state for one in made if (job := runner.find(one.id, ALL))]


def until_stopped(progress: JobProgress) -> list[FileResult]:
    while True:
        progress.report("reading", 1, 2)
        progress.pause(0.01)


def as_told(_: str, payload: str) -> Callable[[JobProgress], list[FileResult]]:
    """The work that a payload names: to go on until it is stopped, or to end at once."""
    return until_stopped if payload == "slow" else lambda _: []


def test_workers_share_collections_and_what_one_leaves_another_does(database: Database, tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, server = stack.enter_context(beside_workers(database, tmp_path))
        slow, next_of_a, of_b = (
            server.submit("index", collection, no_work, MINE, payload)
            for collection, payload in (("a", "slow"), ("a", "quick"), ("b", "quick"))
        )
        assert slow.message == NO_WORKER
        (_, first), (_, second) = (stack.enter_context(beside_workers(database, tmp_path, WORKERS)) for _ in range(2))
        assert server.submit("index", "c", no_work, MINE).message == "", "one runs now"
        first.take(as_told, 1)
        first.take(as_told, 1)
        eventually(lambda: states(server, slow) == ["running"])
        second.take(as_told, 1)
        eventually(lambda: states(server, of_b) == ["done"])
        assert states(server, next_of_a) == ["queued"], "the jobs of a collection follow one another"
        first.close()
        assert states(server, slow, next_of_a) == ["queued", "queued"]
        second.take(as_told, 1)
        eventually(lambda: states(server, slow) == ["running"])
        assert [job.message for job in server.listing(ALL, "a")] == [NO_WORKER, ""]
        server.cancel(slow.id)
        second.close()
        assert states(server, slow, next_of_a) == ["cancelled", "queued"]


def test_a_job_during_which_workers_die_is_given_up(database: Database, tmp_path: Path) -> None:
    with beside_workers(database, tmp_path) as (mark, server):
        job = server.submit("upload", "a", no_work, MINE, "slow")
        for left in reversed(range(ATTEMPTS)):
            with beside_workers(database, tmp_path, WORKERS) as (dying, worker):
                worker.take(as_told, 1)
                eventually(lambda: states(server, job) == ["running"])
                # As by a kill, but that it still writes how far it is.
                dying.close()
                database.write_blocking(mark.mark_interrupted)
                worker.close()
                assert states(server, job) == (["queued"] if left else ["failed"])
        assert [job.message for job in server.listing(ALL)] == [GIVEN_UP]


def test_a_job_whose_end_the_disk_did_not_take_is_still_known_to_have_ended(
    database: Database, runner: JobRunner, place: Path | str
) -> None:
    refuse = "PRAGMA query_only = 1" if isinstance(place, Path) else "SET default_transaction_read_only = on"
    go = threading.Event()

    def wait(progress: JobProgress) -> list[FileResult]:
        go.wait(120)
        return files(progress)

    made = [runner.submit("index", "a", wait, MINE) for _ in range(UNSTORED + 5)]
    database.write_blocking(lambda c: c.exec_driver_sql(refuse))
    go.set()
    assert finished(runner, made[-1]).state == "done"
    assert runner.listing(ALL)[0].state == "done"
    # The last one has ended a moment before the oldest is forgotten.
    eventually(lambda: len(runner._tasks) == UNSTORED)
