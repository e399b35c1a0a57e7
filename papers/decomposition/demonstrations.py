"""Demonstrations: answered questions shown to a model before its own, for choosing passages or for answering."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random

import regex

from papers.decomposition.base import Example, RecipeEvents, RecipePool, RecipeTools, RecipeUnavailable

_NEGATIVE = regex.compile(
    r"\b(?:not (?:\w+ )?(?:mentioned|discussed|stated|reported|specified|described)|no mention|unclear)\b"
    r"|cannot[_ ]answer|unanswerable",
    regex.IGNORECASE,
)


def drawn(golds: Sequence[Example], pool: RecipePool, shots: int) -> tuple[Example, ...]:
    """At most `shots` of the golds at random, the same for the same question: answered ones, of other documents."""
    tested = {one.document_id for one in pool.passages}
    fit = [one for one in golds if one.document_id not in tested and one.excerpt.strip() and says_something(one.answer)]
    seed = int.from_bytes(hashlib.sha256(pool.question.encode("utf-8", "replace")).digest()[:8])
    return tuple(Random(seed).sample(fit, min(shots, len(fit))))


def says_something(answer: str) -> bool:
    """Whether an answer answers, and does not say that the answer is not there."""
    text = answer.strip()
    return bool(text) and not _NEGATIVE.search(text)


async def demonstrations(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """The pool with examples for every recipe behind, and for the answer. Raises RecipeUnavailable without any."""
    found = drawn(tools.golds, pool, tools.shots)
    if not found:
        raise RecipeUnavailable(
            "There are no demonstrations of other documents: name a file of them with answer.demonstrations."
        )
    yield replace(pool, examples=found)


@lru_cache(maxsize=4)
def read_examples(path: Path) -> tuple[Example, ...]:
    """The examples of a file of JSON lines with `document`, `question`, `excerpt` and `answer`.

    Raises RecipeUnavailable where it cannot be read.
    """
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        return tuple(
            Example(*(str(row[name]) for name in ("document", "question", "excerpt", "answer"))) for row in rows
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecipeUnavailable(
            f"answer.demonstrations: {path} holds no JSON lines with document, question, excerpt and answer ({error})."
        ) from error
