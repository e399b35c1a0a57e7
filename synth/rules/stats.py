"""What is in a file of rewriting examples: how long, how many unchanged, and by which means they point back.

Works on every shape `rewriter.examples` reads, so that rule-made rows stand beside written ones. Kinds of reference
are told from the two texts alone, by the same few rules for every file; a question may show several.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import regex

from rewriter.examples import RewriteExample, read_examples
from rewriter.words import stems

_WORD = regex.compile(r"[\p{L}\p{N}]+(?:['’-]\p{L}+)*")
_PRONOUN = regex.compile(r"\b(?:it|its|they|them|their|he|him|his|she|her|hers|itself|themselves)\b", regex.IGNORECASE)
_DEMONSTRATIVE = regex.compile(
    r"\b(?:this|that|these|those)\b(?:\s+(?!(?:is|are|was|were|do|does|did|can|will)\b)(\p{L}+))?", regex.IGNORECASE
)
_ONE = regex.compile(
    r"\b(?:one|ones|first|second|third|last|latter|former|other|others|both|either|two)\b", regex.IGNORECASE
)
_ACTION = regex.compile(r"\bdo(?:ing)? (?:that|this|it|so)\b", regex.IGNORECASE)
_INTERROGATIVE = regex.compile(
    r"^\W*(?:and|so|but|ok)?\W*(?:what|who|whom|whose|which|when|where|why|how|is|are|do|does|did|can|could|will|would|should|am|may|must|has|have|was|were|tell|give|explain|describe)\b",
    regex.IGNORECASE,
)
KINDS = ("pronoun", "that/this", "description", "one/other", "do that", "fragment", "left out", "statement")
"""Kinds of reference, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of one file; lengths are in words, shares between 0 and 1.

    `kinds` are shares of the rewritten rows; `copied` is the share of their rewrites' content words that stand in
    history or question; `distinct` the share of different rewrites.
    """

    rows: int
    unchanged: float
    without_history: float
    turns: float
    question_words: float
    rewrite_words: float
    added_words: float
    copied: float
    distinct: float
    kinds: dict[str, float]
    openings: tuple[tuple[str, float], ...]


def statistics(path: Path, limit: int = 200_000) -> Statistics:
    """Statistics of the first `limit` examples of a file. Raises ExampleError for a file that cannot be read."""
    rows = unchanged = alone = turns = words = rewritten = added = wanted = copied = 0
    kinds: Counter[str] = Counter()
    openings: Counter[str] = Counter()
    different: set[int] = set()
    for example in _first(read_examples(path), limit):
        rows += 1
        alone += not example.history
        turns += len(example.history)
        asked, said = len(_WORD.findall(example.question)), len(_WORD.findall(example.rewrite))
        words += asked
        rewritten += said
        different.add(hash(example.rewrite.lower()))
        openings[_opening(example.rewrite)] += 1
        if not example.needs_rewrite:
            unchanged += 1
            continue
        added += said - asked
        kinds.update(kinds_of(example))
        need = set(stems(example.rewrite))
        wanted += len(need)
        copied += len(need & set(stems(" ".join((*(turn.text for turn in example.history), example.question)))))
    changed = rows - unchanged
    return Statistics(
        rows,
        unchanged / max(rows, 1),
        alone / max(rows, 1),
        turns / max(rows, 1),
        words / max(rows, 1),
        rewritten / max(rows, 1),
        added / max(changed, 1),
        copied / max(wanted, 1),
        len(different) / max(rows, 1),
        {kind: kinds[kind] / max(changed, 1) for kind in KINDS},
        tuple((opening, count / rows) for opening, count in openings.most_common(8)),
    )


def kinds_of(example: RewriteExample) -> set[str]:
    """By which means a question that needs rewriting points back; several may hold."""
    question, rewrite = example.question, example.rewrite
    kept = {word.lower() for word in _WORD.findall(rewrite)}
    found: set[str] = set()
    if any(match.group().lower() not in kept for match in _PRONOUN.finditer(question)):
        found.add("pronoun")
    for match in _DEMONSTRATIVE.finditer(question):
        if match.group().lower() not in rewrite.lower():
            found.add("description" if match.group(1) else "that/this")
    if any(match.group().lower() not in kept for match in _ONE.finditer(question)):
        found.add("one/other")
    if _ACTION.search(question):
        found.add("do that")
    if len(_WORD.findall(question)) <= 4 and not _INTERROGATIVE.match(question):
        found.add("fragment")
    elif not question.rstrip().endswith("?") and not _INTERROGATIVE.match(question):
        found.add("statement")
    if _shortened(question, rewrite):
        found.add("description")
    return found or {"left out"}


def _shortened(question: str, rewrite: str) -> bool:
    """Whether "the form" in the question is "the … form" in the rewrite."""
    for match in regex.finditer(r"\bthe (\p{L}{3,})\b", question, regex.IGNORECASE):
        noun = match.group(1)
        longer = regex.search(rf"\b\p{{L}}[\w-]* {regex.escape(noun)}\b", rewrite, regex.IGNORECASE)
        if longer and f"the {noun}".lower() not in rewrite.lower():
            return True
    return False


def _opening(text: str) -> str:
    return " ".join(word.lower() for word in _WORD.findall(text)[:2])


def _first(examples: Iterable[RewriteExample], limit: int) -> Iterable[RewriteExample]:
    for number, example in enumerate(examples):
        if number >= limit:
            return
        yield example


def table(files: Sequence[tuple[str, Statistics]]) -> str:
    """A Markdown table with a column for each file."""
    rows: list[tuple[str, list[str]]] = [
        ("rows", [f"{one.rows:,}" for _, one in files]),
        ("unchanged", [_share(one.unchanged) for _, one in files]),
        ("without history", [_share(one.without_history) for _, one in files]),
        ("turns of history, mean", [f"{one.turns:.1f}" for _, one in files]),
        ("words of the question, mean", [f"{one.question_words:.1f}" for _, one in files]),
        ("words of the rewrite, mean", [f"{one.rewrite_words:.1f}" for _, one in files]),
        ("words added where rewritten, mean", [f"{one.added_words:.1f}" for _, one in files]),
        ("content words found in history or question", [_share(one.copied) for _, one in files]),
        ("different rewrites", [_share(one.distinct) for _, one in files]),
        *((f"rewritten: {kind}", [_share(one.kinds[kind]) for _, one in files]) for kind in KINDS),
        (
            "commonest openings",
            [", ".join(f"{opening} {_share(share)}" for opening, share in one.openings[:4]) for _, one in files],
        ),
    ]
    lines = ["| | " + " | ".join(name for name, _ in files) + " |", "|---|" + "---|" * len(files)]
    lines.extend(f"| {name} | {' | '.join(values)} |" for name, values in rows)
    return "\n".join(lines)


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def sampled(path: Path, count: int, seed: int, within: int = 50_000) -> str:
    """`count` rows of the first `within` of a file, as Markdown, with the last exchange before each question."""
    examples = list(_first(read_examples(path), within))
    chosen = random.Random(seed).sample(examples, min(count, len(examples)))
    out: list[str] = []
    for example in chosen:
        out.append("")
        out.extend(f"- *{turn.role}*: {_short(turn.text)}" for turn in example.history[-2:])
        out.append(f"- **{example.question}**")
        out.append(f"  → {example.rewrite if example.needs_rewrite else '(unchanged)'}")
    return "\n".join(out).strip()


def _short(text: str, limit: int = 220) -> str:
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0] + " …"
