"""Whether searching and storing work now: looked at when somebody asks, at most every few seconds, with a bound."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from index.errors import IndexingError
from index.query import Query
from server.chat.opened import Collections
from server.store import Database, StoreError
from server.turn.events import DoneEvent, ErrorEvent

REMEMBERED_SECONDS = 5.0
FAILED_SECONDS = 60.0
"""For so long a language model counts as broken after it has failed: then somebody has to ask it again."""
FAILED_ANSWERS = 2
"""So many in a row; one alone may be the question's fault."""
WAIT_SECONDS = 3.0
RESERVE = 64 << 20
"""Bytes that must be free on the disk of the home: a turn, its trace and SQLite's own files need room."""
SEARCH_FAILURES = (IndexingError, OSError, sqlite3.Error, ValueError, RuntimeError)
"""What opening or searching a broken collection raises."""


class Probe:
    """A blocking look at something that may be broken; `look` answers with what is, or with nothing."""

    def __init__(self, what: str, look: Callable[[], str]) -> None:
        self._what = what
        self._look = look
        self._task: asyncio.Task[str] | None = None
        self._began = 0.0

    async def problem(self) -> str:
        """Return the problem as of the last few seconds; a probe that takes too long is a problem itself."""
        if self._task is None or (self._task.done() and time.monotonic() - self._began > REMEMBERED_SECONDS):
            self._began = time.monotonic()
            self._task = asyncio.create_task(asyncio.to_thread(self._look))
        done, _ = await asyncio.wait({self._task}, timeout=WAIT_SECONDS)
        return self._task.result() if done else f"{self._what} takes longer than {WAIT_SECONDS:.0f} seconds."


def database_problem(database: Database) -> str:
    """Why the database takes no writes, though its disk may; empty where it does."""

    try:
        database.write_blocking(database.kind.write_nothing)
    except StoreError as error:
        return str(error)
    return ""


class AnswerWatch:
    """Whether the language model fails those who ask it: one that hangs still lists its models."""

    def __init__(self) -> None:
        self._failed = 0
        self._last = ""
        self._at = 0.0

    def note(self, ending: DoneEvent | ErrorEvent) -> None:
        """Remember how a turn ended."""
        if isinstance(ending, ErrorEvent) and ending.code.startswith("llm_"):
            self._failed, self._last, self._at = self._failed + 1, ending.message, time.monotonic()
        elif ending.type == "done" and ending.status == "answered":
            self._failed = 0

    @property
    def problem(self) -> str:
        """Return the problem; empty if there is none."""
        broken = self._failed >= FAILED_ANSWERS and time.monotonic() - self._at < FAILED_SECONDS
        return f"The last {self._failed} questions to the language model failed: {self._last}" if broken else ""


def search_problem(opened: Collections, name: str) -> str:
    """Why a search of a collection fails; empty where it works."""
    try:
        opened.get(name).search([Query("test")], k=1)
    except SEARCH_FAILURES as error:
        return f"Searching {name} fails: {error}"
    return ""


def disk_problem(home: Path) -> str:
    """Why nothing can be stored in the home; empty where it can."""
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(home).free
    except OSError as error:
        return f"Nothing can be stored in {home}: {error.strerror or error}."
    return f"The disk of {home} has {free >> 20} MiB free; free some space." if free < RESERVE else ""
