"""Rewrites on disk: one JSON object a line, as `anaphora rewrite` writes and `anaphora search` reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from cli.shared.queries import QueryLine
from cli.shared.state import InputError
from rewriter.conversation import Conversation
from rewriter.protocol import Decision, Rewrite, Term

DECISIONS: tuple[Decision, ...] = get_args(Decision)


@dataclass(frozen=True, slots=True)
class Record:
    """One rewritten question. `input` is a hash of all that the rewrite depended on."""

    id: str
    question: str
    text: str
    decision: Decision
    confidence: float | None
    alternatives: tuple[str, ...]
    reason: str
    seconds: float
    rewriter: str
    input: str
    expansion: tuple[Term, ...] = ()
    needs_history: float | None = None

    @classmethod
    def of(cls, query: QueryLine, rewrite: Rewrite, rewriter: str) -> Record:
        """What `rewriter` made of `query`."""
        return cls(
            id=query.id,
            question=query.text,
            text=rewrite.text,
            decision=rewrite.decision,
            confidence=rewrite.confidence,
            alternatives=rewrite.alternatives,
            reason=rewrite.reason,
            seconds=round(rewrite.seconds, 4),
            rewriter=rewriter,
            input=fingerprint(query, rewriter),
            expansion=rewrite.expansion,
            needs_history=rewrite.needs_history,
        )

    def line(self) -> str:
        """The record as a line of a file."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"

    def rewrite(self) -> Rewrite:
        """The record as a rewriter would have returned it."""
        return Rewrite(
            self.text,
            self.decision,
            self.confidence,
            self.alternatives,
            self.seconds,
            self.reason,
            self.expansion,
            self.needs_history,
        )


def fingerprint(query: QueryLine, rewriter: str) -> str:
    """Equal for equal questions in equal conversations before the same rewriter."""
    turns = [(turn.role, turn.text) for turn in query.conversation.messages]
    return hashlib.sha256(json.dumps([rewriter, turns, query.text]).encode()).hexdigest()[:16]


def parse_record(line: str) -> Record:
    """One line as a record; raises ValueError saying what is wrong with it."""
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in ("id", "text", "decision")):
        raise ValueError('no object with "id", "text" and "decision"')
    decision = next((known for known in DECISIONS if known == row["decision"]), None)
    if decision is None:
        raise ValueError(f'the "decision" {row["decision"]!r} is not one of {", ".join(DECISIONS)}')
    if not row["text"].strip():
        raise ValueError('its "text" is empty')
    expansion = row.get("expansion") or ()
    if not isinstance(expansion, list | tuple) or not all(isinstance(term, dict) for term in expansion):
        raise ValueError('its "expansion" is no list of terms')
    return Record(
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


def read_records(path: Path) -> dict[str, Record]:
    """Records by id. Raises InputError naming the first bad line."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; `anaphora rewrite` writes one.")
    records: dict[str, Record] = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if line.strip():
            try:
                record = parse_record(line)
            except ValueError as error:
                raise InputError(
                    f"{path}, line {number}: {error}; write the file again with `anaphora rewrite`."
                ) from None
            records[record.id] = record
    return records


def finished(path: Path, queries: Sequence[QueryLine], rewriter: str) -> dict[str, Record]:
    """The records of an earlier run that still hold for `queries`; failed ones and torn lines do not count."""
    wanted = {query.id: fingerprint(query, rewriter) for query in queries}
    records: dict[str, Record] = {}
    if path.is_file():
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                record = parse_record(line)
            except ValueError:
                continue
            if record.decision != "failed" and wanted.get(record.id) == record.input:
                records[record.id] = record
    return records


class WrittenRewrites:
    """A rewriter that looks its answers up among records."""

    name = "written"

    def __init__(self, queries: Sequence[QueryLine], records: Mapping[str, Record]) -> None:
        """Raises InputError when a question has no record."""
        missing = [query.id for query in queries if query.id not in records]
        if missing:
            raise InputError(
                f"{len(missing)} questions have no rewrite, the first is {missing[0]!r}; "
                "run `anaphora rewrite` with the same queries."
            )
        self._by_input = {(query.conversation, query.text): records[query.id].rewrite() for query in queries}

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The record of this question in this conversation."""
        return self._by_input[conversation, question]
