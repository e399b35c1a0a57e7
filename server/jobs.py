"""Work on collections in the background: one thread for each busy collection, so that its jobs follow one another.

A job reports progress, can be cancelled, and is remembered in the database. There it is claimed before it runs, so that
one at a time works on a collection, whichever of several servers was asked; there any of them cancels it, and marks it
where its own has ended. Only unfinished jobs are held in memory. The caller defines the work. Who
`hands_on` jobs only stores them, each with a payload by which a worker knows its work.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from index.errors import IndexingCancelled, IndexingError
from server.access import Ownership, Principal
from server.store import Database, Runner, StoreError, jobs
from server.store.jobs import CUT_SHORT, NO_WORKER, WORKERS, any_alive
from server.store.records import FileResult, Job, JobKind

log = logging.getLogger(__name__)

SAVE_SECONDS = 0.5
"""Progress is written to the database at most this often."""

CLAIM_SECONDS = 0.3
"""How often a job looks whether one of another server has ended."""

UNSTORED = 20
"""So many finished jobs are held whose end the database did not take, as on a full disk; older ones are let go."""


@dataclass(slots=True, eq=False)
class JobProgress:
    """A job under way: with this its work says how far it is, and learns whether it should stop.

    `left` says that it was left to workers: it goes back to them where this process ends before it. `saved` is when it
    was last written to the database (monotonic seconds).
    """

    runner: JobRunner
    job: Job
    work: Work
    ownership: Ownership
    left: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    saved: float = 0.0

    def report(self, stage: str, done: int, total: int) -> None:
        """Say that `done` of `total` files are through `stage`."""
        self.runner._update(self, stage=stage, done=done, total=total)

    def pause(self, seconds: float) -> None:
        """Wait so long. Raises IndexingCancelled as soon as the work should stop."""
        if self.stop.wait(seconds):
            raise IndexingCancelled("stopped on request")

    def cancelled(self) -> bool:
        """Whether the work should stop soon."""
        return self.stop.is_set()

    def awaited(self) -> bool:
        """Whether another job waits until this one has left the collection. Raises StoreError."""
        return len(self.runner.working_on(self.job.collection)) > 1


Work: TypeAlias = Callable[[JobProgress], Iterable[FileResult]]


class JobRunner:
    """Runs jobs and knows how each stands. All methods may be called from any thread."""

    def __init__(self, database: Database, runner: Runner, *, hands_on: bool = False) -> None:
        self._database = database
        self._runner = runner
        self._hands_on = hands_on
        self._lock = threading.Lock()
        self._tasks: dict[str, JobProgress] = {}
        """By job id; those that are not finished, and those whose end could not be stored."""
        self._queues: dict[str, deque[JobProgress]] = {}
        """What waits, by collection; a collection is here as long as it has a thread."""
        self._threads: set[threading.Thread] = set()
        self._closing = False

    def submit(self, kind: JobKind, collection: str, work: Work, ownership: Ownership, payload: str = "") -> Job:
        """Queue work on a collection, here or for workers. Raises StoreError when the job cannot be remembered."""
        now = time.time()
        job = Job(id=uuid.uuid4().hex, kind=kind, collection=collection, state="queued", created=now, updated=now)
        if self._hands_on:
            if not any_alive(self._runner.folder, WORKERS):
                job = job.model_copy(update={"message": NO_WORKER})
            self._database.write_blocking(jobs.add, job, "", ownership, payload)
            return job
        self._database.write_blocking(jobs.add, job, self._runner.id, ownership)
        self._enqueue(JobProgress(self, job, work, ownership))
        return job

    def take(self, work_of: Callable[[str, str], Work], at_once: int) -> None:
        """Take jobs that are left to workers, until this process has so many. `work_of` makes the work of a collection
        and a payload. Raises StoreError."""
        with self._lock:
            room = 0 if self._closing else at_once - sum(not task.job.finished for task in self._tasks.values())
        if room > 0 and self._database.read_blocking(jobs.any_left):
            for job, payload, ownership in self._database.write_blocking(jobs.take, self._runner.id, room):
                self._enqueue(JobProgress(self, job, work_of(job.collection, payload), ownership, left=True))

    def _enqueue(self, task: JobProgress) -> None:
        collection = task.job.collection
        with self._lock:
            if self._closing:
                task.stop.set()
            self._tasks[task.job.id] = task
            if collection in self._queues:
                self._queues[collection].append(task)
            else:
                self._queues[collection] = deque([task])
                thread = threading.Thread(target=self._work_off, args=(collection,), name=f"job-{collection}")
                self._threads.add(thread)
                thread.start()

    def _work_off(self, collection: str) -> None:
        """Run what waits for a collection until nothing does."""
        while True:
            with self._lock:
                queue = self._queues[collection]
                if not queue:
                    del self._queues[collection]
                    self._threads.discard(threading.current_thread())
                    return
                task = queue.popleft()
            self._run(task)

    def _claim(self, task: JobProgress) -> str:
        """Call `jobs.claim` and return its result. A database that takes no writes stops no job."""
        try:
            return self._database.write_blocking(jobs.claim, task.job)
        except StoreError as error:
            log.warning("job %s could not be claimed: %s", task.job.id, error)
            return "running"

    def _run(self, task: JobProgress) -> None:
        while not task.stop.is_set() and (state := self._claim(task)) != "running":
            if state != "queued":
                task.stop.set()
            task.stop.wait(CLAIM_SECONDS)
        if task.stop.is_set():
            self._stopped(task, "Cancelled before it began.")
            return
        self._update(task, state="running")
        try:
            files = tuple(task.work(task))
        except IndexingCancelled:
            self._stopped(task, "Cancelled; the collection is as it was before.")
        except (IndexingError, StoreError, OSError) as error:
            log.warning("job %s failed: %s", task.job.id, error)
            self._update(task, state="failed", message=str(error))
        except Exception as error:  # the thread of all jobs goes on; the log has the traceback
            log.exception("job %s failed", task.job.id)
            self._update(
                task, state="failed", message=f"{type(error).__name__}: {error}. This is a fault; the log has more."
            )
        else:
            failed = [file for file in files if file.status == "failed"]
            message = f"{len(failed)} of {len(files)} files could not be indexed." if failed else ""
            # One file is all an upload is about: if it failed, so did the job.
            self._update(task, state="failed" if failed and len(files) == 1 else "done", message=message, files=files)

    def _stopped(self, task: JobProgress, message: str) -> None:
        """Somebody cancelled the job, or the process ends before it."""
        if self._closing and task.left:
            try:
                self._database.write_blocking(jobs.give_back, task.job.id, self._runner.id)
            except StoreError as error:
                log.warning("job %s is left to another worker once this one has ended: %s", task.job.id, error)
        elif self._closing:
            self._update(task, state="interrupted", message=CUT_SHORT[task.job.kind])
        else:
            self._update(task, state="cancelled", message=message)

    def _update(self, task: JobProgress, **changes: object) -> None:
        job = task.job = task.job.model_copy(update={**changes, "updated": time.time()})
        now = time.monotonic()
        if "state" not in changes and now - task.saved < SAVE_SECONDS:
            return
        task.saved = now
        stored = True
        try:
            if not self._database.write_blocking(jobs.save, job, self._runner.id):
                task.stop.set()
        except StoreError as error:
            stored = False
            log.warning("the state of job %s could not be stored: %s", job.id, error)
        if job.finished:
            with self._lock:
                if stored:
                    self._tasks.pop(job.id, None)
                ended = [key for key, other in self._tasks.items() if other.job.finished]
                for key in ended[:-UNSTORED]:
                    del self._tasks[key]

    def settle(self) -> None:
        """Store the ends that the database did not take, for which other servers wait."""
        with self._lock:
            ended = [task for task in self._tasks.values() if task.job.finished]
        for task in ended:
            self._update(task, state=task.job.state)

    def find(self, job_id: str, who: Principal) -> Job | None:
        """How a job stands now, also one that has finished or is of an earlier process."""
        # The task first: one that ends in between would be read as it was stored before.
        with self._lock:
            task = self._tasks.get(job_id)
        stored = self._database.read_blocking(jobs.find, job_id, who)
        return task.job if stored and task else stored

    def listing(self, who: Principal, collection: str | None = None) -> list[Job]:
        """Newest first, with those of earlier processes."""
        with self._lock:
            tasks = dict(self._tasks)
        stored = self._database.read_blocking(jobs.listing, collection, who)
        return [tasks[job.id].job if job.id in tasks else job for job in stored]

    def busy(self, collection: str) -> str | None:
        """The id of the job that is changing a collection or will next, in whatever server. Raises StoreError."""
        return next(iter(self.working_on(collection)), None)

    def working_on(self, collection: str) -> list[str]:
        """The ids of the unfinished jobs on a collection, in the order in which they run. Raises StoreError."""
        # First the ends that are not stored yet: one that is stored meanwhile would be told by neither.
        with self._lock:
            ended = {task.job.id for task in self._tasks.values() if task.job.finished}
        names = self._database.read_blocking(jobs.working_on, collection)
        return [job_id for job_id in names if job_id not in ended]

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; one that has finished stays as it is. Raises StoreError."""
        with self._lock:
            task = self._tasks.get(job_id)
        if task:
            task.stop.set()
        else:
            self._database.write_blocking(jobs.cancel, job_id)

    def close(self) -> None:
        """Stop everything and wait until the threads have noticed."""
        with self._lock:
            self._closing = True
            threads = list(self._threads)
            for task in self._tasks.values():
                task.stop.set()
        for thread in threads:
            thread.join()
