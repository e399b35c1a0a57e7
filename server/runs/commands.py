"""Commands as child processes of the server: one at a time of each kind, each with a record and a log in its folder.

What runs is what a terminal would run, with the server's own settings. It is ended as by Ctrl-C, by `stop` and by the
end of the server, and goes on when it is started again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from server.processes import python_command, python_environment
from server.runs.plans import PlannedRun
from server.runs.records import CommandRecord
from server.settings import Settings
from server.store import Runner
from text.files import write_text

log = logging.getLogger(__name__)

RECORD = "command.json"
LOG = "command.log"
END_SECONDS = 20.0
"""A command that takes longer to end is killed: its files are made for that, too."""
_MODULE = "cli.shared.child"
_SETTINGS = ("index", "retrieval", "rewriter", "llm", "trace")


class CommandBusy(Exception):
    """A command of that kind, or in that folder, runs already."""


class CommandRunner:
    """The commands that this process has started. All methods may be called from any thread."""

    def __init__(self, settings: Settings, runner: Runner) -> None:
        self._settings = settings
        self._runner = runner
        self._lock = threading.Lock()
        self._running: dict[Path, tuple[CommandRecord, subprocess.Popen[bytes], threading.Thread]] = {}
        self._closing = False

    def start(self, planned: PlannedRun, who: str) -> CommandRecord:
        """Start a command, or go on with it. Raises CommandBusy, OSError."""
        with self._lock:
            if self._closing:
                raise CommandBusy("The server is ending.")
            for folder, (other, _, _) in self._running.items():
                if other.command == planned.command or folder == planned.folder:
                    raise CommandBusy(
                        f"{folder.name} ({other.command}) is running; one {other.command} runs at a time. Stop it or "
                        "wait for it."
                    )
            record = CommandRecord(
                command=planned.command,
                fields=planned.fields,
                arguments=planned.arguments,
                who=who,
                runner=self._runner.id,
                started=time.time(),
            )
            planned.folder.mkdir(parents=True, exist_ok=True)
            _keep(planned.folder, record)
            with (planned.folder / LOG).open("ab") as written:
                process = subprocess.Popen(
                    python_command("-m", _MODULE, f"--home={self._settings.home.absolute()}", *planned.arguments),
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env=child_environment(self._settings),
                    # Ctrl-C in the server's terminal is the server's business.
                    start_new_session=True,
                )
            thread = threading.Thread(target=self._watch, args=(planned.folder,), name=f"run-{planned.folder.name}")
            self._running[planned.folder] = record, process, thread
            thread.start()
        return record

    def _watch(self, folder: Path) -> None:
        """Wait for a command's end, and write it down."""
        with self._lock:
            _, process, _ = self._running[folder]
        with process:  # which also closes the pipe
            code = process.wait()
        with self._lock:
            record, _, _ = self._running[folder]
            try:
                # Where the server ends it, its record goes on saying that it runs, in a process that is gone.
                if record.stopped or not self._closing or not code:
                    _keep(folder, record.model_copy(update={"ended": time.time(), "code": code}))
            except OSError as error:
                log.warning("the end of %s could not be written down: %s", folder, error)
            del self._running[folder]

    def is_running(self, folder: Path) -> bool:
        """Whether this process runs a command in a folder."""
        return folder in self._running

    def is_alive(self, record: CommandRecord, folder: Path) -> bool:
        """Whether what a record tells of runs now: here, or in another server of this home."""
        if record.ended is not None:
            return False
        return self.is_running(folder) if record.runner == self._runner.id else self._runner.is_alive(record.runner)

    def stop(self, folder: Path) -> bool:
        """Ask the command in a folder to end; False where none runs here."""
        with self._lock:
            if folder not in self._running:
                return False
            record, process, thread = self._running[folder]
            self._running[folder] = record.model_copy(update={"stopped": True}), process, thread
            process.send_signal(signal.SIGINT)
        return True

    def close(self) -> None:
        """End every command, and wait until its end is written down."""
        with self._lock:
            self._closing = True
            running = list(self._running.values())
        for _, process, _ in running:
            process.send_signal(signal.SIGINT)
        until = time.monotonic() + END_SECONDS
        for _, process, thread in running:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                thread.join()


def _keep(folder: Path, record: CommandRecord) -> None:
    write_text(folder / RECORD, record.model_dump_json(indent=1))


def child_environment(settings: Settings) -> dict[str, str]:
    """An environment in which a command has the server's settings, be they from flags, files or variables."""
    environment = python_environment(COLUMNS="500", PYTHONUNBUFFERED="1")
    for name in [name for name in environment if name.startswith("ANAPHORA_")]:
        del environment[name]
    for name in _SETTINGS:
        environment[f"ANAPHORA_{name.upper()}"] = getattr(settings, name).model_dump_json(exclude_none=True)
    if key := settings.llm.api_key.get_secret_value():
        environment["ANAPHORA_LLM__API_KEY"] = key
    return environment
