"""Rewrites of many questions: made side by side, and kept as one JSON object a line.

`anaphora rewrite` writes them and `anaphora search` reads them. The rewriter is handed in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from evaluation.batches.queries import QueryLine, json_object
from evaluation.errors import BadRow, EvaluationError, RewriterUnusable
from evaluation.systems import KnownRewrites
from rewriter.protocol import Decision, Rewrite, Rewriter, Term
from server.turn.search import rewrite_within

GIVE_UP_AFTER = 20
"""Failures in a row from the beginning of a run after which the language model is taken to be unusable."""
DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRecord(Rewrite):
    """One rewritten question. `input` is a hash of all that the rewrite depended on."""

    id: str
    question: str
    rewriter: str
    input: str

    @classmethod
    def of(cls, query: QueryLine, rewrite: Rewrite, rewriter: str) -> RewriteRecord:
        """What `rewriter` made of `query`."""
        made = _as_made(replace(rewrite, seconds=round(rewrite.seconds, 4)))
        return cls(**made, id=query.id, question=query.text, rewriter=rewriter, input=fingerprint(query, rewriter))

    def line(self) -> str:
        """The record as a line of a file."""
        return json.dumps({"id": self.id, **asdict(self)}, ensure_ascii=False) + "\n"

    def rewrite(self) -> Rewrite:
        """The record as a rewriter would have returned it."""
        return Rewrite(**_as_made(self))


def _as_made(rewrite: Rewrite) -> dict[str, Any]:
    return {field.name: getattr(rewrite, field.name) for field in fields(Rewrite)}


def fingerprint(query: QueryLine, rewriter: str) -> str:
    """Equal for equal questions in equal conversations before the same rewriter."""
    turns = [(turn.role, turn.text) for turn in query.conversation.messages]
    return hashlib.sha256(json.dumps([rewriter, turns, query.text]).encode()).hexdigest()[:16]


def parse_record(line: str) -> RewriteRecord:
    """One line as a record; raises ValueError saying what is wrong with it."""
    row = json_object(line)
    if not all(isinstance(row.get(name), str) for name in ("id", "text", "decision")):
        raise ValueError('no object with "id", "text" and "decision"')
    decision = next((known for known in DECISIONS if known == row["decision"]), None)
    if decision is None:
        raise ValueError(f'the "decision" {row["decision"]!r} is not one of {", ".join(DECISIONS)}')
    if not row["text"].strip():
        raise ValueError('its "text" is empty')
    expansion = row.get("expansion") or ()
    if not isinstance(expansion, list | tuple) or not all(isinstance(term, dict) for term in expansion):
        raise ValueError('its "expansion" is no list of terms')
    return RewriteRecord(
        id=row["id"],
        question=str(row.get("question", "")),
        text=row["text"],
        decision=decision,
        confidence=_number(row, "confidence"),
        alternatives=tuple(str(item) for item in row.get("alternatives") or ()),
        reason=str(row.get("reason", "")),
        seconds=_number(row, "seconds") or 0.0,
        rewriter=str(row.get("rewriter", "")),
        input=str(row.get("input", "")),
        expansion=tuple(Term(str(term.get("text", "")), _number(term, "score") or 0.0) for term in expansion),
        needs_history=_number(row, "needs_history"),
    )


def _number(row: Mapping[str, object], name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None


def read_records(path: Path) -> dict[str, RewriteRecord]:
    """Records by id. Raises BadRow naming the first bad line, EvaluationError where there is no file."""
    if not path.is_file():
        raise EvaluationError(f"There is no file {path}; `anaphora rewrite` writes one.")
    records: dict[str, RewriteRecord] = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if line.strip():
            try:
                record = parse_record(line)
            except ValueError as error:
                raise BadRow(f"{path}, line {number}: {error}; write the file again with `anaphora rewrite`.") from None
            records[record.id] = record
    return records


def finished(path: Path, queries: Sequence[QueryLine], rewriter: str) -> dict[str, RewriteRecord]:
    """The records of an earlier run that still hold for `queries`; failed ones and torn lines do not count."""
    wanted = {query.id: fingerprint(query, rewriter) for query in queries}
    records: dict[str, RewriteRecord] = {}
    if path.is_file():
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                record = parse_record(line)
            except ValueError:
                continue
            if record.decision != "failed" and wanted.get(record.id) == record.input:
                records[record.id] = record
    return records


def rewrite_all(
    rewriter: Rewriter,
    label: str,
    queries: Sequence[QueryLine],
    done: Mapping[str, RewriteRecord],
    path: Path,
    *,
    workers: int,
    seconds: float,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, RewriteRecord]:
    """The records of all `queries`: those that are `done`, and new ones, each added to `path` as it comes.

    Raises RewriterUnusable where nothing but failures comes.
    """
    records = dict(done)
    failures = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        unanswered = [query for query in queries if query.id not in done]
        for query, made in in_parallel(rewriter, unanswered, workers, seconds):
            records[query.id] = record = RewriteRecord.of(query, made, label)
            file.write(record.line())
            file.flush()
            failures += made.decision == "failed"
            if failures == GIVE_UP_AFTER == len(records):
                raise RewriterUnusable(
                    f"The first {failures} questions all failed ({made.reason}). "
                    "`anaphora doctor` checks the language model; the same command then goes on."
                )
            advance()
    return records


def in_parallel(
    rewriter: Rewriter, queries: Sequence[QueryLine], workers: int, seconds: float
) -> Iterator[tuple[QueryLine, Rewrite]]:
    """Each question with its rewrite as it comes; no more than `workers` are under way, each within a turn's limit."""

    def rewritten(line: QueryLine) -> Rewrite:
        return asyncio.run(rewrite_within(seconds, rewriter, line.conversation, line.text, blocking=True))

    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(rewritten, line): line for line in queries}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


class WrittenRewrites(KnownRewrites):
    """A rewriter that looks its answers up among records; a question written in full is searched for as it stands."""

    def __init__(self, queries: Sequence[QueryLine], records: Mapping[str, RewriteRecord]) -> None:
        """Raises EvaluationError when a question has no record."""
        missing = [query.id for query in queries if query.id not in records]
        if missing:
            raise EvaluationError(
                f"{len(missing)} questions have no rewrite, the first is {missing[0]!r}; "
                "run `anaphora rewrite` with the same queries."
            )
        made = {(query.conversation, query.text): records[query.id].rewrite() for query in queries}
        found = {asked: replace(one, expansion=()) if one.decision == "rewrite" else one for asked, one in made.items()}
        super().__init__("written", found)
