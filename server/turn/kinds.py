"""What kind of answer an answer is: yes or no, words of the evidence, words of its own, or none.

Told by its form: nothing here says whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import regex

from text.sentences import sentence_spans

AnswerKind: TypeAlias = Literal["extractive", "abstractive", "yes/no", "unanswerable"]

_YES_NO = regex.compile(r"\W*(?:yes|no)\b(?!\s+\p{L})", regex.IGNORECASE)
_ASKS_WHETHER = regex.compile(
    r"\W*(?:(?:and|but|so|or|also|then)\W+)*(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should"
    r"|may|might|must)(?:n['’]t)?\s",
    regex.IGNORECASE,
)
_EDGES = " \n\t.,;:!?\"'“”‘’`*()[]"


def asks_whether(question: str) -> bool:
    """Whether a question can be answered with yes or no, told by the English word it begins with."""
    return bool(_ASKS_WHETHER.match(question))


def answer_kind(answer: str, passages: Iterable[str]) -> AnswerKind:
    """The kind of an answer without its citation markers; an empty one answers nothing.

    It is extractive where each of its sentences stands in a passage, case, spaces and outer punctuation aside.
    """
    said = [_plain(answer[start:end]) for start, end in sentence_spans(answer)]
    if not any(said):
        return "unanswerable"
    if _YES_NO.match(answer):
        return "yes/no"
    held = [_plain(passage) for passage in passages]
    return "extractive" if all(any(one in text for text in held) for one in said) else "abstractive"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES)
