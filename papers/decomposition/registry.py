"""The recipes by name, and what a turn gives them to work with."""

from __future__ import annotations

import re
from collections.abc import Mapping

import regex

from papers.asking import QuoteAsker
from papers.decomposition.base import Recipe
from papers.decomposition.demonstrations import demonstrations
from papers.decomposition.selecting import baseline, perplexity, prune, rank
from papers.decomposition.voting import vote
from server.turn.decision import MOST, QuestionPart

AT_ONCE = 8
"""Requests side by side at a server elsewhere; one that runs here has nothing to gain."""
RECIPES: Mapping[str, Recipe] = {
    "baseline": baseline,
    "perplexity": perplexity,
    "rank": rank,
    "prune": prune,
    "demonstrations": demonstrations,
    "vote": vote,
}
_STEP = rf"(?:{'|'.join(name for name in RECIPES if name != 'vote')})"
_LINE = regex.compile(r"^\W*(?:\d+[.)]\s*)?(.*\w.*?)\s*$", regex.MULTILINE)


PATTERN = re.compile(rf"(?:{_STEP}(?:\+{_STEP})*(?:\+vote)?|vote|plain)")


def checked_recipe(name: str) -> str:
    """Return `name`, one strategy or several joined by `+`, a vote last. Raises ValueError."""
    if not PATTERN.fullmatch(name):
        raise ValueError(f"There is no recipe {name[:80]!r}: join some of {', '.join(RECIPES)} by +, a vote last.")
    return name


def recipes_of(name: str) -> list[tuple[str, Recipe]]:
    """What a checked name calls for, in order; nothing for a way of answering that is none of these."""
    return [(one, RECIPES[one]) for one in name.split("+") if one in RECIPES]


async def told_parts(question: str, asker: QuoteAsker) -> tuple[QuestionPart, ...]:
    """The parts that a model says a question has; none where it says one, or too many. Raises AskingFailed."""
    said = await asker.ask("parts", {"question": question}, 120)
    lines = list(dict.fromkeys(_LINE.findall(said)))
    return tuple(map(QuestionPart, lines)) if 1 < len(lines) <= MOST else ()
