"""The models that work on a turn, and the length of answers that suits them.

Opening models belongs to the chat service. `short` answers suit a small model on a CPU, `full` ones larger and faster
models; each style has its own instructions (`prompts/answer_<style>.md`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from rewriter.protocol import Rewriter
from server.settings import LLMSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.rerank import Reranker


AnswerStyle: TypeAlias = Literal["short", "full"]

FULL_WINDOW = 8192
"""Tokens of context from which on a model is taken for one that writes full answers well."""
FULL_PACE = 20.0
"""Tokens a second at which a full answer of 300 is there in a quarter of a minute."""

_NEWEST = 0.3


class WritingPace:
    """How fast a model writes, from the answers it wrote; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens_per_second = 0.0
        """The newest answers weigh most; 0 before the first."""

    def add(self, tokens: int, seconds: float) -> None:
        """One more answer, timed from its first piece; those of a few tokens tell nothing."""
        if tokens < 10 or seconds <= 0:
            return
        with self._lock:
            before = self.tokens_per_second or tokens / seconds
            self.tokens_per_second = before + _NEWEST * (tokens / seconds - before)


def answer_style(llm: LLMSettings, window: int = 0, pace: WritingPace | None = None) -> AnswerStyle:
    """The style of the next answer.

    `window` is the context that the model's server tells, in tokens; 0 takes the settings'. `auto` is full for a model
    with a large one that writes fast; until an answer was timed, one at an address is believed to.
    """
    if llm.style != "auto":
        return llm.style
    speed = pace.tokens_per_second if pace else 0.0
    fast = speed >= FULL_PACE if speed else llm.remote
    return "full" if fast and max(window, llm.context_tokens) >= FULL_WINDOW else "short"


@dataclass(frozen=True, slots=True)
class TurnModels:
    """Models of one turn; without a `chat_model` sentences are quoted. `name` says what answers, for traces.

    `style` is how it is to answer, and `pace` is told how fast it did.
    """

    rewriter: Rewriter
    reranker: Reranker | None = None
    chat_model: BaseChatModel | None = None
    name: str = "none"
    style: AnswerStyle = "short"
    pace: WritingPace | None = None

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """The same for every turn."""
        return self

    async def of_search(self, group: str = "") -> TurnModels:
        """The same for every search."""
        return self


class ModelSource(Protocol):
    """Gives what works on a turn, or a search, as it begins: models change under a running server."""

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """For an answer of at most `answer_tokens`, or as long as the settings allow. The prompt cache of a model's
        server is separate for each `group`."""

    async def of_search(self, group: str = "") -> TurnModels:
        """For a search alone, which needs no model that answers."""
