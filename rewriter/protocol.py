"""The contract of a rewriter: a conversation and a question in, a stand-alone question out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable


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
    """The messages before the question that is asked now, oldest first; may be empty."""

    messages: tuple[Message, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.messages)

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
