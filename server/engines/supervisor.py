"""Keeps the worker process of the local engine alive: starts it, watches it, restarts it, gives up with a reason.

Knows the worker's pipes and its log, nothing of requests to it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Literal

from server.engines.base import EngineFailed, EngineJob
from server.processes import python_command, python_environment

log = logging.getLogger(__name__)

Status = Literal["stopped", "starting", "ready", "failed"]

DEATHS = 4
"""So many deaths, each within `STEADY_SECONDS` of a start, and the engine is given up."""
STEADY_SECONDS = 60.0
BACKOFF_SECONDS = 0.5
STOP_SECONDS = 5.0
_LOG_BYTES, _LOG_FILES, _LOG_TAIL = 1 << 20, 3, 12


class Supervisor:
    """One worker process, kept running from `start` to `stop`."""

    def __init__(self, job: EngineJob, log_file: Path) -> None:
        self._job = job
        self._log_file = log_file
        self._changed = threading.Condition()
        self._status: Status = "stopped"
        self._reason = ""
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._tail: deque[str] = deque(maxlen=_LOG_TAIL)

    @property
    def status(self) -> Status:
        """`starting` also while it comes back from a death."""
        return self._status

    @property
    def pid(self) -> int | None:
        """The worker's process id while there is one."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Begin; returns at once. After a failure this begins anew."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stopping.clear()
        self._set("starting")
        self._thread = threading.Thread(target=self._run, name="engine-supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the worker and wait until it is gone."""
        self._stopping.set()
        with self._changed:
            process = self._process
            _end(process)
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if process is not None and process.poll() is None:
                process.kill()
                self._thread.join()
        self._set("stopped")

    def wait_ready(self, seconds: float) -> None:
        """Block until the worker answers. Raises EngineFailed if it gave up, was stopped, or takes longer."""
        with self._changed:
            self._changed.wait_for(lambda: self._status != "starting", seconds)
            self.check()

    def check(self) -> None:
        """Raise EngineFailed unless the worker answers."""
        if self._status == "ready":
            return
        raise EngineFailed({
            "failed": self._reason,
            "starting": "The local engine is still loading its model; try again in a moment.",
            "stopped": "The local engine is stopped.",
        }[self._status])  # fmt: skip

    def _set(self, status: Status, reason: str = "") -> None:
        with self._changed:
            self._status, self._reason = status, reason
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self._keep_alive()
        finally:
            # Whatever ended this thread: nobody waits for a worker that nobody watches.
            if not self._stopping.is_set() and self._status != "failed":
                self._set(
                    "failed", f"The local engine is no longer watched; the server's log and {self._log_file} say why."
                )

    def _keep_alive(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                refusal = self._serve_once()
            except OSError as error:
                refusal = f"its process could not be started ({error})"
            if self._stopping.is_set():
                return
            deaths = 1 if time.monotonic() - began > STEADY_SECONDS else deaths + 1
            if refusal or deaths >= DEATHS:
                reason = refusal or f"it died {deaths} times in a row ({self._last_words()})"
                self._set("failed", f"The local engine was given up: {reason}. Its log is {self._log_file}.")
                log.error("%s", self._reason)
                return
            log.warning("the local engine died (%s) and is started again", self._exit())
            self._set("starting")
            self._stopping.wait(BACKOFF_SECONDS * 2 ** (deaths - 1))

    def _serve_once(self) -> str:
        """Run one worker until it ends; returns why another try would be in vain, else nothing."""
        self._tail.clear()
        with self._changed:
            if self._stopping.is_set():
                return ""
            self._process = process = subprocess.Popen(
                python_command("-m", "server.engines.worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                # A session of its own, so that Ctrl-C in the terminal does not reach it.
                start_new_session=True,
                # Threads that wait for each other must soon sleep: beside other busy processes, spinning ones made
                # decoding on two cores many times slower. Sleeping at once costs a third of it on an idle machine.
                env={"GOMP_SPINCOUNT": "2000", **python_environment()},
            )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        logger = threading.Thread(target=self._keep_log, args=(process.stderr,), name="engine-log", daemon=True)
        logger.start()
        refusal = ""
        try:
            with suppress(BrokenPipeError):  # it died before it read its job
                process.stdin.write(json.dumps(asdict(self._job)) + "\n")
                process.stdin.flush()
            for line in process.stdout:
                answer = _answer(line)
                if answer.get("ready"):
                    self._set("ready")
                elif "error" in answer:
                    refusal = f"{self._job.model} could not be loaded ({answer['error']}; {self._last_words()})"
                else:
                    # A library may print before our code runs.
                    log.warning("the local engine said something that is no answer: %.200r", line)
        finally:
            _end(process)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            logger.join()
            process.stdout.close()
            process.stderr.close()
        return refusal

    def _keep_log(self, stderr: IO[str]) -> None:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            self._log_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8", delay=True
        )
        # A full disk must not stop the engine; its pipe has to be read on.
        handler.handleError = lambda record: None  # type: ignore[method-assign]
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        for line in stderr:
            self._tail.append(line.rstrip())
            handler.handle(logging.makeLogRecord({"msg": line.rstrip(), "levelno": logging.INFO}))
        handler.close()

    def _exit(self) -> str:
        code = self._process.poll() if self._process is not None else None
        return "no exit status" if code is None else f"exit status {code}"

    def _last_words(self) -> str:
        lines = [line for line in self._tail if line]
        return f"{self._exit()}; {lines[-1][:300]}" if lines else self._exit()


def _answer(line: str) -> dict[str, object]:
    """The worker's answer, empty for a line that is none."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _end(process: subprocess.Popen[str] | None) -> None:
    """Close the pipe whose end tells the worker to go."""
    if process is not None and process.stdin is not None:
        with suppress(BrokenPipeError):  # it is gone already
            process.stdin.close()
