"""Work on collections in the background: one thread for each collection, so that its jobs follow one another.

A job reports progress, can be cancelled, and is remembered in the database; one that its process did
not outlive is marked there at the next start. What the work is, is the caller's business.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from index.errors import IndexingCancelled, IndexingError
from server.store import Database, Runner, StoreError, jobs
from server.store.records import FileResult, Job, JobKind

log = logging.getLogger(__name__)

SAVE_SECONDS = 0.5
"""Progress is written to the database at most this often."""


class JobProgress:
    """What work uses to say how far it is and to learn whether it should stop."""

    def __init__(self, runner: JobRunner, job_id: str, stop: threading.Event) -> None:
        self._runner = runner
        self._job_id = job_id
        self._stop = stop

    def report(self, stage: str, done: int, total: int) -> None:
        """Say that `done` of `total` files are through `stage`."""
        self._runner._update(self._job_id, stage=stage, done=done, total=total)

    def cancelled(self) -> bool:
        """Whether the work should stop soon."""
        return self._stop.is_set()


Work = Callable[[JobProgress], Iterable[FileResult]]


class JobRunner:
    """Runs jobs and knows how each stands. All methods may be called from any thread."""

    def __init__(self, database: Database, runner: Runner) -> None:
        self._database = database
        self._runner = runner
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._stops: dict[str, threading.Event] = {}
        self._saved: dict[str, float] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}

    def submit(self, kind: JobKind, collection: str, work: Work) -> Job:
        """Queue work on a collection. Raises StoreError when the job cannot be remembered."""
        now = time.time()
        job = Job(id=uuid.uuid4().hex, kind=kind, collection=collection, state="queued", created=now, updated=now)
        self._database.write_blocking(lambda connection: jobs.add(connection, job, self._runner.id))
        with self._lock:
            self._jobs[job.id] = job
            self._stops[job.id] = threading.Event()
            if collection not in self._threads:
                self._threads[collection] = ThreadPoolExecutor(1, thread_name_prefix=f"job-{collection}")
            self._threads[collection].submit(self._run, job.id, work)
        return job

    def _run(self, job_id: str, work: Work) -> None:
        stop = self._stops[job_id]
        if stop.is_set():
            self._update(job_id, state="cancelled", message="Cancelled before it began.")
            return
        self._update(job_id, state="running")
        try:
            files = tuple(work(JobProgress(self, job_id, stop)))
        except IndexingCancelled:
            self._update(job_id, state="cancelled", message="Cancelled; the collection is as it was before.")
        except (IndexingError, StoreError, OSError) as error:
            log.warning("job %s failed: %s", job_id, error)
            self._update(job_id, state="failed", message=str(error))
        except Exception as error:
            log.exception("job %s failed", job_id)
            self._update(
                job_id, state="failed", message=f"{type(error).__name__}: {error}. This is a fault; the log has more."
            )
        else:
            failed = [file for file in files if file.status == "failed"]
            message = f"{len(failed)} of {len(files)} files could not be indexed." if failed else ""
            # One file is all an upload is about: if it failed, so did the job.
            self._update(job_id, state="failed" if failed and len(files) == 1 else "done", message=message, files=files)

    def _update(self, job_id: str, **changes: object) -> None:
        now = time.time()
        with self._lock:
            job = self._jobs[job_id] = self._jobs[job_id].model_copy(update={**changes, "updated": now})
            due = "state" in changes or now - self._saved.get(job_id, 0.0) >= SAVE_SECONDS
            if due:
                self._saved[job_id] = now
        if due:
            try:
                self._database.write_blocking(lambda connection: jobs.save(connection, job))
            except StoreError as error:
                log.warning("the state of job %s could not be stored: %s", job_id, error)
        if job.finished:
            with self._lock:
                self._stops.pop(job_id, None)
                self._saved.pop(job_id, None)

    def find(self, job_id: str) -> Job | None:
        """How a job stands now, also one of an earlier process."""
        with self._lock:
            if job_id in self._jobs:
                return self._jobs[job_id]
        return self._database.read_blocking(lambda connection: jobs.find(connection, job_id))

    def listing(self, collection: str | None = None) -> list[Job]:
        """Newest first, with those of earlier processes."""
        stored = self._database.read_blocking(lambda connection: jobs.listing(connection, collection))
        with self._lock:
            return [self._jobs.get(job.id, job) for job in stored]

    def busy(self, collection: str) -> str | None:
        """The id of the job that is changing a collection or will next."""
        with self._lock:
            for job in self._jobs.values():
                if job.collection == collection and not job.finished:
                    return job.id
        return None

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; one that has finished stays as it is."""
        with self._lock:
            if stop := self._stops.get(job_id):
                stop.set()

    def close(self) -> None:
        """Cancel everything and wait until the threads have noticed."""
        with self._lock:
            threads = list(self._threads.values())
            for stop in self._stops.values():
                stop.set()
        for thread in threads:
            thread.shutdown()
