"""Recipes: what each leaves of a pool, what a model is sent for it, and what it is told how likely."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest

from papers.decomposition.base import (
    NOT_MENTIONED,
    PACKAGE,
    Example,
    RecipePool,
    RecipeTools,
    RecipeUnavailable,
    cook,
)
from papers.decomposition.demonstrations import drawn
from papers.decomposition.forcing import ForcingAsker
from papers.decomposition.registry import recipes_of
from papers.decomposition.selecting import unlikelihood
from server.engines import RemoteEngine
from server.settings import Settings
from server.turn.events import StepEvent
from tests.chat_model import ScriptedChatModel
from tests.openai_server import FakeOpenAIServer
from tests.server.turn_fakes import FAX, LEAVE, evidence
from text.recorder import Recording

TOKENS = ("The", " answer", " to the question", " is not mentioned in", " the excerpt")
QUESTION = "How long is parental leave?"
THIRD = "The canteen opens at noon."
POOL = RecipePool(QUESTION, tuple(evidence(FAX, LEAVE, THIRD)))


def remote(llm: FakeOpenAIServer) -> RemoteEngine:
    return RemoteEngine(Settings.model_validate({"llm": {"model": llm.url}}))


def cooked(name: str, pool: RecipePool, model: Any, **tools: Any) -> tuple[RecipePool, list[StepEvent], Recording]:
    """What is left of a pool, the steps told, and the record; of an engine, its model is asked."""
    engine = model if isinstance(model, RemoteEngine) else None
    if engine is not None:
        with engine:
            return _cooked(name, pool, engine.chat_model(), engine, tools)
    return _cooked(name, pool, model, engine, tools)


def _cooked(
    name: str, pool: RecipePool, model: Any, engine: RemoteEngine | None, tools: Any
) -> tuple[RecipePool, list[StepEvent], Recording]:
    recording, steps = Recording("turn"), list[StepEvent]()

    async def run() -> RecipePool:
        left, given = pool, RecipeTools(ForcingAsker(model, package=PACKAGE), **tools)
        try:
            with recording.root:
                async for one in cook(recipes_of(name), pool, given):
                    if isinstance(one, RecipePool):
                        left = one
                    else:
                        steps.append(one)
            return left
        finally:
            if engine is not None:
                await engine.aclose()

    return asyncio.run(run()), steps, recording


def texts(pool: RecipePool) -> list[str]:
    return [one.text for one in pool.passages]


def logprobs(request: dict[str, Any]) -> list[tuple[str, float]]:
    """Known ones: that the answer is not mentioned is unlikely where leave is, and likely elsewhere."""
    says = "ten weeks" in str(request["messages"])
    return [(token, (-1.25 if says else -0.0625) * n) for n, token in enumerate(TOKENS, 1)]


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
def test_perplexity_is_told_alike_by_prompts_and_by_grammars(owner: str) -> None:
    with FakeOpenAIServer(owned_by=owner, forced=logprobs) as llm:
        engine = remote(llm)

        async def score() -> list[float]:
            asker = ForcingAsker(engine.chat_model(), package=PACKAGE)
            try:
                return [await unlikelihood(POOL, one, asker) for one in POOL.passages]
            finally:
                await engine.aclose()

        with engine:
            found = asyncio.run(score())
    # exp(−mean log p) of 5 tokens at 1, 2, … 5 times -1.25 or -0.0625.
    expected = [math.exp(0.0625 * 3), math.exp(1.25 * 3), math.exp(0.0625 * 3)]
    assert found == pytest.approx(expected, abs=1e-9)
    assert ("grammar" in llm.requests[0]) is (owner == "llamacpp")
    if owner == "llamacpp":
        assert json.loads(llm.requests[0]["grammar"].removeprefix("root ::= ")) == NOT_MENTIONED


def test_perplexity_takes_the_passage_of_which_not_mentioned_is_least_likely() -> None:
    with FakeOpenAIServer(owned_by="vllm", forced=logprobs) as llm:
        best, steps, recording = cooked("perplexity", POOL, remote(llm))
        every, _, _ = cooked("perplexity", POOL, remote(llm), beyond=1.1)
        few, _, _ = cooked("perplexity", POOL, remote(llm), beyond=1.1, budget=20)
    assert texts(best) == [LEAVE]
    assert [(step.done, step.of) for step in steps] == [(1, 3), (2, 3), (3, 3)]
    assert set(texts(every)) == {FAX, LEAVE, THIRD}
    assert texts(few) == [LEAVE], "what overflows loses the least relevant first"
    # What a model is sent is what the trace's parts are, one after the other.
    calls = [call for call in recording.calls() if call["name"] == "ask answer"]
    for call, request in zip(calls, llm.requests, strict=False):
        parts: Any = call["prompt"]
        sent = [message["content"] for message in request["messages"][:2]]
        assert [
            "".join(p.get("value", p.get("literal", "")) for p in parts if p["message"] == n) for n in (0, 1)
        ] == sent
        assert any(part.get("expression") == "excerpt" for part in parts)
        assert call["parent"] == next(one["id"] for one in recording.calls() if one["name"] == "perplexity")


def test_demonstrations_are_answered_ones_of_other_documents() -> None:
    golds = [
        Example("d1.md", "Of the tested document?", FAX, "By fax."),
        Example("x.md", "Negative?", "Nothing.", "It is not clearly mentioned."),
        Example("x.md", "Refused?", "Nothing.", NOT_MENTIONED + "."),
        *(Example("y.md", f"Good {n}?", f"Excerpt {n}.", f"Answer {n}.") for n in range(6)),
    ]
    shown = drawn(golds, POOL, 3)
    assert len(shown) == 3 == len(set(shown))
    assert all(one.document_id == "y.md" for one in shown)
    assert shown == drawn(golds, POOL, 3), "the same for the same question"
    with FakeOpenAIServer(owned_by="vllm", forced=logprobs) as llm:
        left, _, _ = cooked("demonstrations+perplexity", POOL, remote(llm), golds=golds)
    assert left.examples == shown
    assert shown[0].answer in llm.requests[0]["messages"][1]["content"], "shown for choosing passages too"
    with pytest.raises(RecipeUnavailable, match=r"answer\.demonstrations"):
        cooked("demonstrations", POOL, ScriptedChatModel(script=[]), golds=golds[:3])
