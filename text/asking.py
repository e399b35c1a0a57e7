"""A question as a cross-encoder reads it that was trained on conversations: with what leans on it, in one line.

The same text is made when such a model is trained and when it serves. The length limits of the parts, in the model's
own tokens, are stored with the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BETWEEN = " | "


Cut = Callable[[str, int], tuple[str, int]]
"""A text's beginning of at most so many tokens, and how many those are."""


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """Context of a question: the words a rewriter would append, and the exchange before it (any may be empty)."""

    words: str = ""
    asked: str = ""
    answered: str = ""


@dataclass(frozen=True, slots=True)
class AskingLengths:
    """Most tokens of each part; all together are what the question's side of a pair may have."""

    question: int = 40
    words: int = 16
    asked: int = 20
    answered: int = 32

    @property
    def total(self) -> int:
        """Most tokens of the whole; what stands between the parts is one token each."""
        return self.question + self.words + self.asked + self.answered + 3


def asking(question: str, context: QuestionContext, lengths: AskingLengths, cut: Cut) -> str:
    """The question, the words it leaves out, the question before it and its answer; what is empty is left out."""
    parts = (
        (question, lengths.question),
        (context.words, lengths.words),
        (context.asked, lengths.asked),
        (context.answered, lengths.answered),
    )
    return BETWEEN.join(cut(text, most)[0] for text, most in parts if text.strip() and most)
