"""Questions about randomised trials, what people answered, and the paragraphs they quoted (ICE's gold standards).

The papers are not there: a question's pool are all quotes from its paper, and quotes from others as distractors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import regex

from evaluation.questions import EvaluationError, Question, json_rows, names, optional, present, text
from papers.decomposition.base import Example
from papers.decomposition.demonstrations import says_something
from plugins.evidence.source import numbered_texts
from server.turn.events import Evidence

SET = "ice_gold"
TASKS: dict[str, str] = {
    "adherence": "How many participants took part in {} to the end: adherence, compliance or dropout?",
    "placebo": "Was a placebo given for comparison with {}? Begin with yes or no.",
}
SPLITS = ("iterate", "validation", "test")
"""The first is for looking and fitting, the second for choosing, the last for the final figure, once."""
SMALLEST = 30
"""Characters; shorter quotes name a figure or a table."""
_SOURCE = regex.compile(r"\(quote_source:[^)]*\)")


@dataclass(frozen=True, slots=True)
class TrialQuestion:
    """A question with its pool, and the numbers of the passages that its gold quotes. `whether` is the right answer to
    a question of yes or no."""

    question: Question
    pool: tuple[Evidence, ...]
    gold: frozenset[int]
    whether: bool | None = None

    @property
    def says(self) -> bool:
        """Whether the paper answers it."""
        return says_something(self.question.answer)


def load_trials(data: Path, task: str, split: str, size: int) -> tuple[list[TrialQuestion], list[Example]]:
    """The questions of a task and split with pools of `size` passages, and the demonstrations they may be shown.

    Demonstrations and nothing else are taken from another split, always `iterate`, and never of a paper that the split
    asked for has too. Raises MissingSet, BadRow, EvaluationError.
    """
    path = present(data / SET / "gold_standards.jsonl", "ICE's gold standards", "It is published with ICE by Ought.")
    rows = [row | {"text": text(row, "question", at), "quotes": _texts(row, at)} for at, row in json_rows(path)]
    asked = [row for row in rows if row["text"] == task and row["split"] == split]
    if not asked:
        raise EvaluationError(f"{path} has no question of {task} in the split {split}.")
    papers = {row["document_id"] for row in rows if row["split"] == split}
    quotes: dict[str, list[str]] = {}
    for row in rows:
        # Other splits' quotes are kept out of the pools, so that nothing chosen here has seen them.
        if row["split"] == split:
            known = quotes.setdefault(row["document_id"], [])
            known += [one for one in dict.fromkeys(row["quotes"]) if one not in known]
    golds = [
        Example(row["document_id"], _asked(row), quote, " ".join(row["answer"].split()))
        for row in rows
        if row["text"] == task and row["split"] == SPLITS[0]
        if split == SPLITS[0] or row["document_id"] not in papers
        for quote in row["quotes"][:1]
    ]
    return [one for row in asked if (one := _trial(row, quotes, size)).gold], golds


def _trial(row: dict[str, Any], quotes: dict[str, list[str]], size: int) -> TrialQuestion:
    own, paper = quotes[row["document_id"]], row["document_id"]
    others = sorted({one for name, held in quotes.items() if name != paper for one in held} - set(own))
    seed = Random(int.from_bytes(hashlib.sha256(f"{row['_id']}".encode()).digest()[:8]))
    shown: Sequence[str] = [*own, *seed.sample(others, max(0, min(size - len(own), len(others))))]
    # Distractors are other documents; the paper's own passages keep an order of places.
    pool = [_placed(one, paper if n < len(own) else f"other {n}", n) for n, one in enumerate(numbered_texts(shown))]
    gold = frozenset(n for n, one in enumerate(shown, start=1) if one in row["quotes"])
    whether = row["classification_1"].strip() == "Placebo" if row["text"] == "placebo" else None
    asked = Question(str(row["_id"]), paper, _asked(row), answer=" ".join(optional(row, "answer").split()))
    return TrialQuestion(asked, tuple(pool), gold, whether)


def _placed(one: Evidence, document: str, place: int) -> Evidence:
    return one.model_copy(update={"document_id": document, "start": place, "end": place + len(one.text)})


def _asked(row: dict[str, Any]) -> str:
    told = " ".join(optional(row, "experiment").split())
    return TASKS[row["text"]].format(told if 0 < len(told) < 80 and told != "All" else "the intervention")


def _texts(row: dict[str, Any], at: str) -> list[str]:
    cleaned = (" ".join(_SOURCE.sub("", one).split()) for one in names(row, "quotes", at))
    return [one for one in cleaned if len(one) >= SMALLEST]
