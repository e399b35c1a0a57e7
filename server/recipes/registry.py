"""The recipes by name, and what a turn gives them to work with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from server.evidence.asking import QuoteAsker
from server.recipes.base import PACKAGE, Recipe, RecipeTools, RecipeUnavailable
from server.recipes.demonstrations import demonstrations, read_examples
from server.recipes.selecting import baseline, perplexity, prune, rank
from server.recipes.splitting import MOST, QuestionPart
from server.recipes.voting import vote
from server.turn.prompt import evidence_budget

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from server.settings import Settings

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
_LINE = regex.compile(r"^\W*(?:\d+[.)]\s*)?(.*\w.*?)\s*$", regex.MULTILINE)


def recipes_of(name: str) -> list[tuple[str, Recipe]]:
    """What a checked name calls for, in order; nothing for a way of answering that is none of these."""
    return [(one, RECIPES[one]) for one in name.split("+") if one in RECIPES]


def tools_of(settings: Settings, chat_model: BaseChatModel | None, question: str) -> RecipeTools:
    """What recipes work with in a turn. Raises RecipeUnavailable."""
    if chat_model is None:
        raise RecipeUnavailable("This way of answering needs a language model, and none is at work (llm.model).")
    answer, llm = settings.answer, settings.llm
    return RecipeTools(
        QuoteAsker(chat_model, llm.total_seconds, package=PACKAGE),
        read_examples(Path(answer.demonstrations)) if answer.demonstrations else (),
        answer.shots,
        evidence_budget(question, llm),
        answer.perplexity,
        AT_ONCE if llm.remote else 1,
    )


async def told_parts(question: str, asker: QuoteAsker) -> tuple[QuestionPart, ...]:
    """The parts that a model says a question has; none where it says one, or too many. Raises AskingFailed."""
    said = await asker.ask("parts", {"question": question}, 120)
    lines = list(dict.fromkeys(_LINE.findall(said)))
    return tuple(map(QuestionPart, lines)) if 1 < len(lines) <= MOST else ()
