"""Estimate the cost of a run before any request: requests, tokens, money.

The windows are the real ones. Later steps are estimated with ratios observed on English documentation: a proposition
for every so many tokens, a pair for every so many propositions. Retries are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synth.prompts import chat_prompt
from synth.propositions.build import extraction
from synth.propositions.windows import DocumentWindow

TOKENS_PER_PROPOSITION = 27
"""Tokens of a document for each proposition made of it."""

PROPOSITION_TOKENS = 22

PAIRS_PER_PROPOSITION = 0.6

PAIR_TOKENS = 45

QUESTION_TOKENS = 12

GROUNDING_TOKENS = 18


@dataclass(frozen=True, slots=True)
class StepCost:
    """Cost of one step: requests, and tokens in and out."""

    step: str
    requests: int
    tokens_in: int
    tokens_out: int

    def price(self, price_in: float, price_out: float) -> float:
        """The cost at these prices for a million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6


def estimate(
    windows: Sequence[DocumentWindow], list_size: int, count_tokens: Callable[[str], int], *, dialogs: bool = True
) -> list[StepCost]:
    """The cost of each step, in order; counts of tokens are the encoder's, which is near those of language models."""
    tasks = [extraction(window, count_tokens) for window in windows]
    tokens = sum(count_tokens(task.system) + count_tokens(task.user) for task in tasks)
    text = sum(count_tokens(window.text) for window in windows)
    propositions = round(text / TOKENS_PER_PROPOSITION)
    costs = [StepCost("propositions", len(tasks), tokens, propositions * PROPOSITION_TOKENS)]
    if not dialogs:
        return costs
    lists = -(-propositions // list_size)
    pairs = round(propositions * PAIRS_PER_PROPOSITION)
    facts, talk = propositions * PROPOSITION_TOKENS, pairs * PAIR_TOKENS
    for step, material, answer in (
        ("dialog", facts, talk),
        ("contextualise", talk, pairs * QUESTION_TOKENS),
        ("ground", facts + talk, pairs * GROUNDING_TOKENS),
    ):
        costs.append(StepCost(step, lists, lists * count_tokens(chat_prompt(step).system) + material, answer))
    return costs
