"""Recipes that choose passages: the first, by perplexity, by pairwise comparison, and by what is needed together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import regex

from papers.asking import QuoteAsker
from papers.decomposition.base import (
    NOT_MENTIONED,
    Example,
    RecipeEvents,
    RecipePool,
    RecipeTools,
    side_by_side,
    within_budget,
)
from papers.decomposition.forcing import perplexity as perplexity_of
from server.turn.events import Evidence, StepEvent
from text.languages import message

ANSWER_TOKENS = 120
BEST = 3
"""Passages that rank-and-answer answers from."""
_NUMBER = regex.compile(r"\d+")


def shown_examples(examples: Sequence[Example]) -> str:
    """Examples as a prompt shows them before the question."""
    return "".join(f"Question: {one.question}\nExcerpt: {one.excerpt}\nAnswer: {one.answer}\n\n" for one in examples)


def answer_parts(pool: RecipePool, passages: Sequence[Evidence]) -> dict[str, str]:
    """What the prompt `answer` is filled with."""
    excerpt = "\n\n".join(one.text for one in passages)
    return {"examples": shown_examples(pool.examples), "question": pool.question, "excerpt": excerpt}


async def answered(pool: RecipePool, asker: QuoteAsker) -> str:
    """The pool's answer, or what a model says in one generation from the passages that are left.

    Raises AskingFailed.
    """
    return pool.answer or await asker.ask("answer", answer_parts(pool, pool.passages), ANSWER_TOKENS)


async def unlikelihood(pool: RecipePool, passage: Evidence, asker: QuoteAsker) -> float:
    """exp(−mean log p) of "not mentioned" as the answer from this passage: high where the passage says it.

    Raises ForcingUnavailable and AskingFailed.
    """
    said = await asker.say("answer", answer_parts(pool, [passage]), ANSWER_TOKENS, force=NOT_MENTIONED)
    return perplexity_of([said.logprob])


async def baseline(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """The passage that the search put first."""
    yield replace(pool, passages=pool.passages[:1])


async def perplexity(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """The passages of which a model finds it least likely that they do not mention the answer."""
    scores = [0.0] * len(pool.passages)

    async def score(passage: Evidence) -> float:
        return await unlikelihood(pool, passage, tools.asker)

    done = 0
    async for n, found in side_by_side(pool.passages, score, tools.at_once):
        scores[n], done = found, done + 1
        yield StepEvent(name="perplexity", done=done, of=len(scores), text=message("Reading the passages one by one"))
    order = sorted(range(len(scores)), key=lambda n: -scores[n])
    chosen = [n for n in order if tools.beyond and scores[n] >= tools.beyond] or order[:1]
    yield replace(pool, passages=within_budget([pool.passages[n] for n in chosen], tools.budget))


async def prune(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """Of the passages together those that a model says are needed; all where it names none."""
    if len(pool.passages) > 1:
        yield StepEvent(name="prune", done=0, of=1, text=message("Leaving out what is not needed"))
        excerpts = "\n\n".join(f"{n}. {one.text}" for n, one in enumerate(pool.passages, start=1))
        said = await tools.asker.ask("prune", {"question": pool.question, "excerpts": excerpts}, 30)
        named = {int(one) for one in _NUMBER.findall(said)}
        kept = tuple(one for n, one in enumerate(pool.passages, start=1) if n in named)
        yield replace(pool, passages=kept or pool.passages)


async def rank(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """The best passages by pairwise comparison, until they are known: each is put into its place among the best."""
    best, most = list[Evidence](), len(pool.passages)
    for done, passage in enumerate(pool.passages, start=1):
        low, high = 0, len(best)
        # Most lose against the last of the best, and are compared no more.
        if high == BEST and not await _wins(pool, passage, best[-1], tools.asker):
            low = BEST
        while low < high and low < BEST:
            middle = (low + high) // 2
            wins = await _wins(pool, passage, best[middle], tools.asker)
            low, high = (low, middle) if wins else (middle + 1, high)
        best = [*best[:low], passage, *best[low:]][:BEST]
        yield StepEvent(name="rank", done=done, of=most, text=message("Comparing the passages"))
    yield replace(pool, passages=within_budget(best, tools.budget))


async def _wins(pool: RecipePool, one: Evidence, other: Evidence, asker: QuoteAsker) -> bool:
    """Whether `one` is said to answer better, asked in both orders: small models like the first. At a tie it loses."""

    async def first(a: Evidence, b: Evidence) -> bool:
        parts = {"question": pool.question, "first": a.text, "second": b.text}
        return (await asker.ask("compare", parts, 3)).strip(" \"'*.()").upper().startswith("A")

    ahead, behind = await asyncio.gather(first(one, other), first(other, one))
    return ahead and not behind
