"""Evaluation sets: questions in their conversations, a corpus, and the relevant units.

The other modules of the folder bring every data set into this form; nothing here reads files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from evaluation.errors import BadRow, MissingSet
from evaluation.metrics.ranking import Qrels
from rewriter.examples import normalised
from rewriter.protocol import Conversation, Message, Role

Row: TypeAlias = Mapping[str, object]
"""A row of `corpus.jsonl`: `_id`, `title`, `text`, `metadata`."""

By: TypeAlias = Literal["unit", "document", "parents"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question in its conversation, and what people made of it; what is not known is empty.

    `dialog` names the conversation: questions of one are never taken for independent. `rewrite` is a person's
    stand-alone form, `answer` a reference answer, `answerability` one of `answerable`, `partial`, `unanswerable`,
    `underspecified`, `conversational`, `none`; `kind` how it refers to the conversation (`pronoun`, `ellipsis`, …).
    """

    id: str
    dialog: str
    text: str
    conversation: Conversation = field(default=Conversation())
    rewrite: str = ""
    domain: str = ""
    answer: str = ""
    answerability: str = ""
    kind: str = ""

    @property
    def depth(self) -> int:
        """The how-manieth question of its conversation it is, from 1."""
        return 1 + sum(turn.role == "user" for turn in self.conversation.messages)

    @property
    def needs_rewrite(self) -> bool | None:
        """Whether a person changed its words to make it stand alone; None where nobody said."""
        return normalised(self.rewrite) != normalised(self.text) if self.rewrite else None


@dataclass(frozen=True, slots=True)
class Quote:
    """A literal answer to a question, and the document that contains it."""

    document: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedLevel:
    """The judged units: the searched passages, their documents, or another unit they belong to.

    With `by` `parents`, `parents` maps a unit to what it belongs to, and `qrels` judges those.
    """

    name: str
    qrels: Qrels
    by: By = "unit"
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalSet:
    """A data set ready to be searched.

    `unit` says what a passage of the corpus is (`section`, `passage`, `sentence`, `proposition`). `corpus` is a
    BEIR `corpus.jsonl`, a folder of documents, rows, or None where an indexed collection of the operator is searched.
    `quotes` are judgements too, by question: `evaluation.sets.quotes` finds their passages in the collection.
    """

    name: str
    unit: str
    corpus: Path | tuple[Row, ...] | None
    questions: tuple[Question, ...]
    levels: tuple[JudgedLevel, ...] = ()
    quotes: Mapping[str, tuple[Quote, ...]] = field(default_factory=dict)
    pool: str = ""
    """Sets of one pool are also measured together, by this name."""

    def every(self, n: int) -> EvalSet:
        """The same with every `n`th question only."""
        return replace(self, questions=self.questions[::n])

    def drawn(self, share: float) -> EvalSet:
        """The same with that share of the questions that are marked answerable, always the same ones."""

        def stays(question: Question) -> bool:
            return question.answerability != "answerable" or random.Random(f"5:{question.id}").random() < share

        return replace(self, questions=tuple(filter(stays, self.questions)))

    @property
    def judged(self) -> tuple[Question, ...]:
        """The questions that some level has a judgement for, or a quote."""
        return tuple(
            q for q in self.questions if self.quotes.get(q.id) or any(level.qrels.get(q.id) for level in self.levels)
        )


GROUPINGS = {
    "kind": ("kind ",),
    "depth": ("turn ",),
    "answerability": ("answerability ",),
    "domain": ("domain ",),
    "need": ("needs rewriting", "stands alone"),
}
"""What results can be told apart by, and how the names of its parts begin."""

DEPTHS = ((1, 1, "1"), (2, 2, "2"), (3, 3, "3"), (4, 5, "4-5"), (6, 8, "6-8"), (9, 10_000, "9+"))


def slices(question: Question) -> list[str]:
    """The parts of a set a question is counted in: all, first or follow-up, and by each of `GROUPINGS`."""
    names = ["all", "follow-ups" if question.conversation else "first questions"]
    names += [f"turn {name}" for low, high, name in DEPTHS if low <= question.depth <= high]
    if question.domain:
        names.append(f"domain {question.domain}")
    if question.kind:
        names.append(f"kind {question.kind}")
    if question.answerability:
        names.append(f"answerability {question.answerability}")
    if question.needs_rewrite is not None:
        names.append("needs rewriting" if question.needs_rewrite else "stands alone")
    return names


ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant"}


def present(path: Path, what: str, where_to_get: str) -> Path:
    """`path` if it exists; raises MissingSet saying what was looked for and where it is published."""
    if not path.exists():
        raise MissingSet(f"{what} is not there: {path} does not exist. {where_to_get}")
    return path


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (file and line, for messages) and object of every line that is not blank. Raises BadRow."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise BadRow(f"{where} is not JSON ({error}).") from None
                if not isinstance(row, dict):
                    raise BadRow(f"{where} holds no JSON object.")
                yield where, row
    except UnicodeDecodeError as error:
        raise BadRow(f"{path} is not UTF-8 text ({error.reason}).") from error


def json_document(path: Path) -> dict[str, Any]:
    """A whole file as one JSON object. Raises BadRow."""
    try:
        value = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadRow(f"{path} is not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise BadRow(f"{path} holds no JSON object.")
    return value


def text(row: dict[str, Any], key: str, where: str) -> str:
    """A text that must be there and say something."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f'{where} has no "{key}".')
    return value


def optional(row: dict[str, Any], key: str) -> str:
    """A text, empty where it is missing; the first of a list."""
    value = row.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else ""


def names(row: dict[str, Any], key: str, where: str) -> list[str]:
    """A list of ids, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRow(f'{where}: "{key}" is not a list of ids.')
    return value


def objects(row: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A list of objects that each have a text, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("text"), str) for entry in value
    ):
        raise BadRow(f'{where}: "{key}" is no list of objects with "id" and "text".')
    return value


def conversation(turns: object, where: str) -> Conversation:
    """Turns with `role` and `text`, oldest first."""
    if not isinstance(turns, list):
        raise BadRow(f"{where}: the history is not a list.")
    messages = []
    for turn in turns:
        role = ROLES.get(str(turn.get("role"))) if isinstance(turn, dict) else None
        if role is None or not isinstance(turn.get("text"), str):
            raise BadRow(f'{where}: a turn of the history has no "role" (user or assistant) and "text".')
        messages.append(Message(role, turn["text"]))
    return Conversation(tuple(messages))
