"""How long an answer is: `short`, which a small model on a CPU writes well, or `full`, for larger and faster ones.

Each has its own instructions (`prompts/answer_<style>.md`) and its own longest answer.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias

from server.settings import LLMSettings

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
