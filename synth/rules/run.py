"""Files of triples: blocks made by one or several processes, written in order, resumable after any interruption.

While it grows the file is `<out>.part`, beside it `<out>.progress` with the number of finished blocks and the length
up to which the file is good. A run that is started again with the same documents and settings cuts the file there
and goes on; the finished file is the same, byte for byte, as one written without a break, whatever the number of
processes.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from synth.errors import RunBusy, SynthError
from synth.rules.generate import Proportions, block_triples, worth
from synth.rules.sources import Spool, source_texts, spooled

BLOCK_DOCUMENTS = 24
"""Documents drawn together: enough for a change of topic, few enough to be held."""
MOST_PER_BLOCK = 4_000
ROWS_PER_DOCUMENT = 8
"""Where fewer rows are wanted than that for each document, only some of the documents are read, drawn by the seed."""
CHARACTERS_PER_ROW = 4
"""Rows are made up to one for so many characters of text; beyond that conversations would repeat themselves."""
FORMAT = 1


class TriplesError(SynthError):
    """Triples cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class TriplesReport:
    """What a run wrote: `rows` in all, those of this run, documents read, and what was left out."""

    path: Path
    rows: int
    new_rows: int
    documents: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    """One block: its place, its name (round and number), its documents, how many rows it should give."""

    name: str
    documents: tuple[int, ...]
    count: int


def write_triples(
    paths: Sequence[Path],
    out: Path,
    count: int,
    *,
    seed: int = 1,
    proportions: Proportions | None = None,
    processes: int = 1,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    restart: bool = False,
    progress: Callable[[int], None] | None = None,
) -> TriplesReport:
    """Write `count` rows to `out` (gzip where its name ends in `.gz`), going on with an interrupted run.

    Fewer rows come where the documents are too short for so many (`CHARACTERS_PER_ROW`). `progress` is told the
    rows written so far.
    Raises TriplesError where there is nothing to make them of, or where `<out>.part` belongs to other settings.
    """
    mixture = proportions or Proportions()
    out.parent.mkdir(parents=True, exist_ok=True)
    warnings: list[str] = []
    lock = out.with_name(f"{out.name}.lock")
    try:
        with FileLock(lock, timeout=0), tempfile.TemporaryDirectory() as folder:
            spool = spooled(source_texts(paths, warnings.append, include, exclude), Path(folder) / "documents")
            if not len(spool):
                raise TriplesError(_nothing(paths, warnings))
            identity = {
                "format": FORMAT,
                "seed": seed,
                "count": count,
                "documents": spool.digest,
                "proportions": mixture.model_dump(),
            }
            written = _Written(out, identity, restart)
            before = written.rows
            make = partial(_made, spool, seed, mixture)
            with written, _mapped(make, processes) as mapped:
                _rounds(written, spool, min(count, sum(spool.lengths) // CHARACTERS_PER_ROW), seed, mapped, progress)
            if not written.rows:
                raise TriplesError(
                    "No triples came of these documents: the rules need English prose in plain sentences."
                )
            written.finish()
            lock.unlink(missing_ok=True)
    except Timeout:
        raise RunBusy(f"Another run is writing {out}; wait for it or choose another file.") from None
    return TriplesReport(out, written.rows, written.rows - before, len(spool), tuple(warnings))


def _nothing(paths: Sequence[Path], warnings: Sequence[str]) -> str:
    told = f": {'; '.join(warnings[:3])}" if warnings else ""
    return f"No documents were found under {', '.join(map(str, paths))}{told}. Give files or folders of documentation."


def _rounds(
    written: _Written,
    spool: Spool,
    count: int,
    seed: int,
    mapped: Callable[[Iterator[_Task]], Iterator[tuple[bytes, int]]],
    progress: Callable[[int], None] | None,
) -> None:
    """Rounds over all documents until there are enough rows, or a whole round gives none."""
    number = written.round
    if progress is not None:
        progress(written.rows)
    while written.rows < count:
        before = written.round_began
        tasks = _tasks(spool, count - before, seed, number)
        for data, rows in mapped(islice(tasks, written.blocks, None)):
            lines = data
            if written.rows + rows > count:
                rows = count - written.rows
                lines = b"".join(data.splitlines(keepends=True)[:rows])
            written.append(lines, rows)
            if progress is not None:
                progress(written.rows)
            if written.rows >= count:
                return
        if written.rows == before:
            return
        number += 1
        written.next_round()


def _tasks(spool: Spool, count: int, seed: int, number: int) -> Iterator[_Task]:
    """The blocks of a round, in an order drawn by the seed; long documents give more rows."""
    order = list(range(len(spool)))
    random.Random(f"{seed}/order/{number}").shuffle(order)
    del order[max(BLOCK_DOCUMENTS, count // ROWS_PER_DOCUMENT) :]
    total = sum(worth(spool.lengths[one]) for one in order)
    given, due, block = 0, 0.0, 0
    for start in range(0, len(order), BLOCK_DOCUMENTS):
        documents = tuple(order[start : start + BLOCK_DOCUMENTS])
        due += count * sum(worth(spool.lengths[one]) for one in documents) / total
        want = round(due) - given
        given += want
        # A block that should give very many rows is made in several pieces, so that progress is saved often.
        while want > 0:
            piece = min(want, MOST_PER_BLOCK)
            yield _Task(f"{number}.{block}", documents, piece)
            want -= piece
            block += 1


def _made(spool: Spool, seed: int, proportions: Proportions, task: _Task) -> tuple[bytes, int]:
    lines = [
        json.dumps(triple.row(), ensure_ascii=False)
        for triple in block_triples(spool.read(task.documents), task.count, seed, task.name, proportions)
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), len(lines)


@contextmanager
def _mapped(
    make: Callable[[_Task], tuple[bytes, int]], processes: int
) -> Iterator[Callable[[Iterator[_Task]], Iterator[tuple[bytes, int]]]]:
    """A map in order over tasks, in this process or in several; few tasks are underway at any time."""
    if processes <= 1:
        yield lambda tasks: map(make, tasks)
        return
    with get_context("spawn").Pool(processes) as pool:

        def mapped(tasks: Iterator[_Task]) -> Iterator[tuple[bytes, int]]:
            waiting = [pool.apply_async(make, (task,)) for task in islice(tasks, 2 * processes)]
            while waiting:
                yield waiting.pop(0).get()
                waiting.extend(pool.apply_async(make, (task,)) for task in islice(tasks, 1))

        yield mapped


class _Written:
    """The growing file and its state on disk; a block counts when both are safe."""

    def __init__(self, out: Path, identity: dict[str, object], restart: bool) -> None:
        self.out = out
        self.part = out.with_name(f"{out.name}.part")
        self.state = out.with_name(f"{out.name}.progress")
        self.identity = identity
        self.rows = self.blocks = self.round = self.round_began = 0
        self._length = 0
        self._file: BinaryIO | None = None
        if restart:
            self.state.unlink(missing_ok=True)
        self._resume()

    def _resume(self) -> None:
        if not self.state.exists():
            return
        try:
            state = json.loads(self.state.read_text("utf-8"))
        except ValueError:
            state = {}
        if not isinstance(state, dict) or state.get("identity") != self.identity:
            raise TriplesError(
                f"{self.part} was begun with other documents, seed, count or proportions. "
                "Give the same ones to go on with it, or --restart to begin anew."
            )
        if self.part.exists() and self.part.stat().st_size >= state["length"]:
            self.rows, self.blocks, self._length = state["rows"], state["blocks"], state["length"]
            self.round, self.round_began = state["round"], state["round_began"]

    def __enter__(self) -> _Written:
        self._file = self.part.open("r+b" if self._length else "wb")
        self._file.truncate(self._length)
        self._file.seek(self._length)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, data: bytes, rows: int) -> None:
        """Add a block's lines, and say so on disk when they are there."""
        assert self._file is not None
        if self.out.suffix == ".gz" and data:
            buffer = io.BytesIO()
            with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed:
                packed.write(data)
            data = buffer.getvalue()
        self._file.write(data)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._length += len(data)
        self.rows += rows
        self.blocks += 1
        self._save()

    def next_round(self) -> None:
        """Begin the next round over the documents."""
        self.round += 1
        self.round_began = self.rows
        self.blocks = 0
        self._save()

    def _save(self) -> None:
        draft = self.state.with_name(f"{self.state.name}.new")
        values = {
            "identity": self.identity, "rows": self.rows, "blocks": self.blocks, "length": self._length,
            "round": self.round, "round_began": self.round_began,
        }  # fmt: skip
        draft.write_text(json.dumps(values), "utf-8")
        draft.replace(self.state)

    def finish(self) -> None:
        """Give the file its name."""
        self.part.replace(self.out)
        self.state.unlink(missing_ok=True)
