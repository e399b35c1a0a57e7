"""The journal of a run: every answer a model gave, one JSON object a line, only ever appended to.

An answer counts once its line is on the disk. A line that a crash tore is cut off when the journal is opened
again; everything else a run writes is made from this file and the documents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from synth.errors import RunBusy
from synth.running.tasks import ModelReply

_FIELDS = {field.name for field in fields(ModelReply)}


class Journal:
    """The answers of a run, held by one process at a time. Use it in `with`.

    `unreadable` counts lines that are no answers (a damaged disk); they are asked again.

    Raises RunBusy where another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RunBusy(
                f"Another process is working on {path.parent}; wait for it or choose another folder."
            ) from None
        self._answers: dict[str, dict[int, ModelReply]] = {}
        self.unreadable = 0
        self._read()
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.release()

    def answers(self, key: str) -> list[ModelReply]:
        """The answers to a question, by attempt."""
        return [answer for _, answer in sorted(self._answers.get(key, {}).items())]

    def __iter__(self) -> Iterator[ModelReply]:
        return (answer for attempts in self._answers.values() for answer in attempts.values())

    def add(self, answer: ModelReply) -> bool:
        """Keep an answer for good; False, and nothing written, where that attempt has one already."""
        attempts = self._answers.setdefault(answer.key, {})
        if answer.attempt in attempts:
            return False
        line = json.dumps(asdict(answer), ensure_ascii=True)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        attempts[answer.attempt] = answer
        return True

    def _read(self) -> None:
        """Take in what was kept, and cut off a line that a crash tore."""
        whole = 0
        with self._path.open("ab+") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                try:
                    row = json.loads(line)
                    answer = ModelReply(**{name: value for name, value in row.items() if name in _FIELDS})
                except (ValueError, TypeError, AttributeError):
                    self.unreadable += 1
                    continue
                self._answers.setdefault(answer.key, {}).setdefault(answer.attempt, answer)
            file.truncate(whole)
