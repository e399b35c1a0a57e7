"""What a recipe is given and gives, and how several are run one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from papers.asking import QuoteAsker
from server.engines.base import EngineError
from server.turn.events import Evidence, StepEvent
from server.turn.models import count_tokens
from text.recorder import current

T = TypeVar("T")
R = TypeVar("R")

PACKAGE = "papers.decomposition.prompts"
NOT_MENTIONED = "The answer to the question is not mentioned in the excerpt"
"""What a model says of an excerpt that does not answer; how likely it finds this is what perplexity compares."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question that a person answered from an excerpt of a document."""

    document_id: str
    question: str
    excerpt: str
    answer: str


@dataclass(frozen=True, slots=True)
class RecipePool:
    """A question that stands alone, and the passages it is answered from, best first at the beginning.

    Recipes leave fewer passages, `examples` to show a model first, or an `answer` that cites passages by number.
    """

    question: str
    passages: tuple[Evidence, ...]
    examples: tuple[Example, ...] = ()
    answer: str = ""


@dataclass(frozen=True, slots=True)
class RecipeTools:
    """What recipes work with. `golds` are examples to draw from, `budget` the tokens of passages that one generation
    reads, `beyond` the perplexity from which passages are taken (0: only the best), `at_once` requests side by side."""

    asker: QuoteAsker
    golds: Sequence[Example] = ()
    shots: int = 3
    budget: int = 2400
    beyond: float = 0.0
    at_once: int = 1


RecipeEvents: TypeAlias = AsyncGenerator[StepEvent | RecipePool, None]
Recipe: TypeAlias = Callable[[RecipePool, RecipeTools], RecipeEvents]


class RecipeUnavailable(EngineError):
    """A recipe cannot be used here; the message says why and what to do."""


async def cook(recipes: Sequence[tuple[str, Recipe]], pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """The steps of recipes run one after the other, each a call below the current one; last the pool they leave.

    Raises EngineError: RecipeUnavailable, ForcingUnavailable, AskingFailed.
    """
    for name, recipe in recipes:
        step = current().begin(name, f"{recipe.__module__}:{recipe.__name__}")
        step.inputs(question=pool.question, passages=[one.n for one in pool.passages])
        try:
            async with aclosing(recipe(pool, tools)) as events:
                while True:
                    # Around each wait, never around a yield.
                    with step.current():
                        event = await anext(events, None)
                    if event is None:
                        break
                    if isinstance(event, RecipePool):
                        pool = event
                    else:
                        yield event
            step.output({"passages": [one.n for one in pool.passages], "answer": pool.answer})
        except EngineError as error:
            step.fail(error)
            raise
        finally:
            step.end()
    yield pool


async def side_by_side(
    items: Sequence[T], make: Callable[[T], Awaitable[R]], at_once: int
) -> AsyncIterator[tuple[int, R]]:
    """What is made of each item with its place, as it comes; what still runs is stopped when the reader leaves."""
    places = asyncio.Semaphore(at_once)

    async def one(n: int) -> tuple[int, R]:
        async with places:
            return n, await make(items[n])

    tasks = [asyncio.create_task(one(n)) for n in range(len(items))]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def within_budget(ranked: Sequence[Evidence], budget: int) -> tuple[Evidence, ...]:
    """Of passages by relevance those that fit, the first always, as they stand in their documents.

    Documents keep the order in which they come first; what overflows loses the least relevant first.
    """
    kept, spent = list[Evidence](), 0
    for one in ranked:
        cost = count_tokens(one.text)
        if kept and spent + cost > budget:
            break
        kept, spent = [*kept, one], spent + cost
    documents = list(dict.fromkeys(one.document_id for one in kept))
    return tuple(sorted(kept, key=lambda one: (documents.index(one.document_id), one.start)))
