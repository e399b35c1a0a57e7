"""What works on a turn, and where that comes from; opening models is the chat service's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rewriter.protocol import Rewriter
from server.turn.style import AnswerStyle, WritingPace

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.rerank import Reranker


@dataclass(frozen=True, slots=True)
class TurnModels:
    """What works on one turn; without a `chat_model` sentences are quoted. `name` says what answers, for traces.

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
        """For an answer of at most `answer_tokens`, or as long as the settings allow. What a model's server remembers
        of prompts is kept apart by `group`."""

    async def of_search(self, group: str = "") -> TurnModels:
        """For a search alone, which needs no model that answers."""
