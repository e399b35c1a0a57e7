"""A vote of the passages: each says yes, no or nothing clear to a question of yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import regex

from papers.asking import asks_whether
from papers.decomposition.base import RecipeEvents, RecipePool, RecipeTools, RecipeUnavailable, side_by_side
from server.turn.events import Evidence, StepEvent
from text.languages import message

REASON_TOKENS = 90
Vote: TypeAlias = Literal["yes", "no", "unclear"]
_VERDICT = regex.compile(r"\b(yes|no|unclear)\b\W*$", regex.IGNORECASE)


def verdict(votes: Sequence[Vote]) -> Literal["yes", "no"]:
    """Any no makes it no; else any yes makes it yes; else no."""
    return "yes" if "yes" in votes and "no" not in votes else "no"


def read_vote(said: str) -> tuple[str, Vote]:
    """The reason and the vote of what a model said: its last word counts."""
    found = _VERDICT.search(said.strip())
    if found is None:
        return said.strip(), "unclear"
    vote: Vote = "yes" if found[1].lower() == "yes" else "no" if found[1].lower() == "no" else "unclear"
    reason = regex.sub(r"(?i)\W*\b(?:so|therefore|verdict|answer|vote)?\W*$", "", said.strip()[: found.start()])
    return reason, vote


async def vote(pool: RecipePool, tools: RecipeTools) -> RecipeEvents:
    """Each passage reasons, then votes; the answer is the verdict with the reasons of those who decided it.

    Raises RecipeUnavailable for a question that yes or no does not answer.
    """
    if not asks_whether(pool.question):
        raise RecipeUnavailable("A vote answers with yes or no, and the question asks for something else.")
    said: list[tuple[str, Vote]] = [("", "unclear")] * len(pool.passages)

    async def asked(passage: Evidence) -> str:
        return await tools.asker.ask("vote", {"question": pool.question, "excerpt": passage.text}, REASON_TOKENS)

    done = 0
    async for n, text in side_by_side(pool.passages, asked, tools.at_once):
        done += 1
        said[n] = read_vote(text)
        yield StepEvent(name="vote", done=done, of=len(said), text=message("Asking each passage"))
    decided = verdict([one for _, one in said])
    voters = [(passage, reason) for passage, (reason, one) in zip(pool.passages, said, strict=True) if one == decided]
    lines = [f"{reason.rstrip('.')} [{passage.n}]." for passage, reason in voters if reason]
    answer = " ".join((f"{decided.capitalize()}.", *(lines or ["No passage says so clearly."])))
    yield replace(pool, passages=tuple(passage for passage, _ in voters), answer=answer)
