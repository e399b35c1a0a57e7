"""Rows that a cross-encoder learns from: a question in its conversation, and passages to rank by it.

They are written by `anaphora eval candidates`, or by hand: JSON lines with `id`, `history` (messages with `role` and
`text`), `question`, `rewrite` (where it is known), `words` (what the term rewriter would append), `source`, and
`passages`, each with its `text`, whether it is `relevant`, and perhaps the `score` that a teacher gives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewriter.conversation import Conversation, Message
from rewriter.errors import ExampleError


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage as it was searched for (title, headings and text); `score` is a teacher's logit, where there is one."""

    text: str
    relevant: bool
    score: float | None = None


@dataclass(frozen=True, slots=True)
class RerankExample:
    """A question with passages, at least one relevant and one not; `id` is unique within its file.

    `rewrite` and `words` may be empty.
    """

    id: str
    history: tuple[Message, ...]
    question: str
    rewrite: str
    words: tuple[str, ...]
    source: str
    passages: tuple[RankedPassage, ...]

    @property
    def conversation(self) -> Conversation:
        """The history as a rewriter takes it."""
        return Conversation(self.history)

    @property
    def dialog(self) -> str:
        """The conversation it belongs to, as far as its id tells."""
        return self.id.rpartition("#")[0] or self.id


def write_rows(path: Path, rows: Iterable[RerankExample]) -> int:
    """Write rows that `read_rows` reads back; how many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            count += 1
    return count


def read_rows(path: Path) -> Iterator[RerankExample]:
    """Every row of a JSONL file, in its order.

    Raises ExampleError, naming file and line, for what is no such row, and for a file that cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _row(line, f"{path.name}, line {number}", path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise ExampleError(f"{path} cannot be read ({error}). Give a JSONL file in UTF-8.") from error


def _row(line: str, where: str, source: str) -> RerankExample:
    try:
        row: dict[str, Any] = json.loads(line)
        passages = tuple(
            RankedPassage(str(one["text"]), bool(one["relevant"]), _number(one.get("score"))) for one in row["passages"]
        )
        history = tuple(Message(one["role"], one["text"]) for one in row.get("history") or ())
        question, words = row["question"], tuple(str(one) for one in row.get("words") or ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExampleError(
            f"{where} is no row to train a cross-encoder on ({error!r}): `anaphora eval candidates` writes such rows."
        ) from error
    if not isinstance(question, str) or not question.strip():
        raise ExampleError(f"{where} has no `question`, or an empty one.")
    if {one.relevant for one in passages} != {True, False}:
        raise ExampleError(f"{where} needs a passage that is relevant and one that is not.")
    return RerankExample(
        id=str(row.get("id") or where),
        history=history,
        question=question,
        rewrite=str(row.get("rewrite") or ""),
        words=words,
        source=str(row.get("source") or source),
        passages=passages,
    )


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]
