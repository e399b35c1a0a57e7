"""The contract of a rewriter: a conversation and a question in, a stand-alone question out; and the gate's calibration.

The gate maps a model's logit that a question needs its conversation to a probability by Platt scaling on held-out
dialogs: p = sigmoid(scale · logit + shift). The threshold is chosen on retrieval, elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable


class RewriterError(Exception):
    """Base of every error this room raises; the message says what happened, where, and what to do."""


class ExampleError(RewriterError):
    """A row of training or evaluation data cannot be read."""


class RecipeError(RewriterError):
    """A recipe, a mixture of data or an option makes no sense."""


class RunError(RewriterError):
    """A folder is not a finished run, or its files are damaged or do not fit together."""


class TrainingError(RewriterError):
    """A training run could not go on: out of memory, out of data, or numbers that left their range."""


Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages before the question that is asked now, oldest first; may be empty.

    `heard` are the messages with the quotes that were told with a doubt, which are left out of `messages`; empty where
    nothing was.
    """

    messages: tuple[Message, ...] = ()
    heard: tuple[Message, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.messages)

    def as_heard(self) -> Conversation:
        """Return the conversation with what was told with a doubt."""
        return Conversation(self.heard) if self.heard else self

    def last_exchange(self) -> tuple[str, str]:
        """The newest user message and everything the assistant said after it (either may be empty)."""
        question, answers = "", list[str]()
        for message in reversed(self.messages):
            if message.role == "user":
                question = message.text
                break
            answers.append(message.text)
        return question, " ".join(reversed(answers))


Decision: TypeAlias = Literal["keep", "rewrite", "expand", "refused", "failed"]
"""keep: the typed question stands alone. rewrite: `text` replaces it. expand: `text` is the typed question
followed by the terms of `expansion`, good to search with and no sentence to show. refused: the guard turned
the rewrite down. failed: error or timeout. In the last two `text` is the typed question."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or words that stand side by side, taken from the history as written; `score` is from 0 to 1."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewriter's result for a question.

    `text` is always usable as a query. `confidence` is the rewriter's belief in its decision (0 to
    1), None where it has none to give.
    `reason` explains a refusal or failure to a person. `seconds` is wall time. `expansion` holds the
    terms that decision `expand` appended, in the order of the conversation. `history_probability` is the
    calibrated probability that the question cannot be understood alone, None from a rewriter without one.
    """

    text: str
    decision: Decision
    confidence: float | None = None
    seconds: float = 0.0
    reason: str = ""
    expansion: tuple[Term, ...] = ()
    history_probability: float | None = None


@runtime_checkable
class Rewriter(Protocol):
    """Anything that can make a question stand alone.

    `rewrite` blocks, may be called from several threads at once, and never raises: on failure it
    returns the typed question with decision `failed`. It ends within its own time limit.
    """

    @property
    def name(self) -> str:
        """Short label for traces and tables, such as `none` or `prompted`."""

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Decide whether `question` needs `conversation` to be understood, and resolve it if so."""


@runtime_checkable
class AsyncRewriter(Rewriter, Protocol):
    """A rewriter that waits for something far away, and stops asking for it when it is cancelled."""

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """As `rewrite`, without blocking; cancelling it ends the request it waits for."""


class PassThroughRewriter:
    """Keeps every question as typed.

    It has no belief about whether the question stands alone, except that one without a conversation
    before it does: hence confidence 1 there, and none elsewhere.
    """

    @property
    def name(self) -> str:
        return "none"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The typed question, at once."""
        return Rewrite(question, "keep", confidence=None if conversation else 1.0)

    async def arewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """As `rewrite`: a turn need not go to a thread for it."""
        return self.rewrite(conversation, question)


STEPS = 200
RIDGE = 1e-3
"""Keeps the fit finite where a dev set is separated perfectly."""


@dataclass(frozen=True, slots=True)
class RewriteGate:
    """`scale` is above 0: a higher logit never means a lower probability."""

    scale: float = 1.0
    shift: float = 0.0
    threshold: float = 0.5

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> RewriteGate:
        """The gate that a `rewriter.json` names; raises KeyError, TypeError or ValueError without."""
        return cls(**{part: float(value) for part, value in description["gate"].items()})

    def probability(self, logit: float) -> float:
        """Calibrated probability that the question needs its conversation."""
        return probability(self.scale * logit + self.shift)

    def as_dict(self) -> dict[str, float]:
        """For `rewriter.json`."""
        return asdict(self)


def fit(logits: Sequence[float], needs: Sequence[bool], threshold: float = 0.5) -> RewriteGate:
    """The gate that makes the log-likelihood of `needs` greatest; the identity where they are all alike.

    Targets are smoothed as Platt (1999) does. Needs torch, which is there where gates are fitted.
    """
    positive, negative = sum(needs), len(needs) - sum(needs)
    if not positive or not negative:
        return RewriteGate(threshold=threshold)
    import torch

    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    inputs = torch.tensor(logits, dtype=torch.float64)
    targets = torch.tensor([high if need else low for need in needs], dtype=torch.float64)
    # Logits of an overconfident model run into the tens: scaled, the steps stay sane.
    spread = max(1.0, float(inputs.square().mean().sqrt()))
    line = torch.tensor([spread, 0.0], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([line], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        fitted = line[0] * inputs / spread + line[1]
        value = torch.nn.functional.binary_cross_entropy_with_logits(fitted, targets, reduction="sum")
        value = value + RIDGE / 2 * line[0] ** 2
        value.backward()
        return value

    optimiser.step(loss)
    scale, shift = line.tolist()
    return RewriteGate(max(scale / spread, 1e-3), shift, threshold)


def probability(logit: float) -> float:
    """The logistic function; 0 where it is too far out for a float."""
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
