"""Checks that need no model: of a pair, and of the wording a question has within its conversation.

Each returns a reason, empty where there is nothing to object to. A pair that fails is removed; a wording that fails
is given up for the stand-alone form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import regex

from synth.propositions.merge import shared
from synth.references import reference
from text.words import negations, numbers, stems, words

if TYPE_CHECKING:
    from index.encoders import Encoder, Vectors

MIN_COVERED = 0.6
"""Share of an answer's content words that its propositions (and its question) must hold."""
LEAKED = 0.85
"""Share of an answer's content words that its question may not reach."""
_LEAK_WORDS = 3
_NEAR = 0.95
_NEAR_SHARED = 0.8
_MAX_QUESTION_WORDS = 45
_MIN_WORDS = 2
_STRANGERS = 1
_OWN_WORDS = 0.5
_YES_NO = regex.compile(r"^\s*(?:yes|no|ja|nein|oui|non|sí|si|no)\b", regex.IGNORECASE)
_MARKUP = regex.compile(r"</?\w+>|```|‹|\{\{|\]\(|^\s*[{\[]")
_ITEM = regex.compile(r"^\s*[*•–-]\s")
# About the material instead of the matter: nobody who chats has "the facts" before them.
_META = regex.compile(
    r"\b(?:the (?:above |given |following |numbered )?(?:facts?|propositions?)"
    r"|the (?:above|given) (?:text|list|passage)"
    r"|(?:fact|proposition) (?:number )?\d+|(?:previous|above) instructions?)\b",
    regex.IGNORECASE,
)

PAIR_REASONS = (
    "not accepted", "no proposition", "form", "about the material", "not stand-alone", "answer not covered",
    "number not covered", "answer leaked", "answer repeated", "near-duplicate",
)  # fmt: skip
FORM_REASONS = (
    "empty", "another question", "changed meaning", "not resolvable", "independent of history", "answer leaked", "form",
)  # fmt: skip


def pair_reason(question: str, answer: str, propositions: Sequence[str]) -> str:
    """Why a pair is removed; one of PAIR_REASONS or empty. `propositions` are those it is grounded in."""
    if not propositions:
        return "no proposition"
    if not _well_formed(question) or _ITEM.match(answer):
        return "form"
    if _META.search(question) or _META.search(answer):
        return "about the material"
    if reference(question):
        return "not stand-alone"
    said = " ".join(propositions)
    if numbers(answer) - numbers(f"{said} {question}"):
        return "number not covered"
    content, known = set(stems(answer)), set(stems(f"{said} {question}"))
    if len(content & known) < MIN_COVERED * len(content) or (negations(answer) and not _may_deny(answer, said)):
        return "answer not covered"
    return "answer leaked" if leaks(question, answer) else ""


def leaks(question: str, answer: str) -> bool:
    """Whether the question says what the answer says. Yes and no repeat their question by nature."""
    content = set(stems(answer))
    if _YES_NO.match(answer) or len(content) < _LEAK_WORDS:
        return False
    return len(content & set(stems(question))) >= LEAKED * len(content)


def form_reason(wording: str, rewrite: str, history: str) -> str:
    """Why a contextualised wording is given up; one of FORM_REASONS or empty.

    `history` is everything said before. A wording equal to the rewrite is in order.
    """
    if not words(wording):
        return "empty"
    if words(wording) == words(rewrite):
        return ""
    if not _well_formed(wording, least=1):
        return "form"
    if numbers(wording) - numbers(rewrite) or bool(negations(wording)) != bool(negations(rewrite)):
        return "changed meaning"
    typed, full, said = set(stems(wording)), set(stems(rewrite)), set(stems(history))
    # People add words of their own when they follow up; what shares nothing with question and talk asks another thing.
    strangers = typed - full - said
    if len(strangers) > max(_STRANGERS, _OWN_WORDS * len(typed)) or (typed and not typed & (full | said)):
        return "changed meaning"
    if len(full - typed - said) > _STRANGERS:
        return "not resolvable"
    if not reference(wording) and not full - typed:
        return "independent of history"
    return ""


@dataclass
class SeenQuestions:
    """The questions kept so far, to find near-duplicates among later ones."""

    encoder: Encoder
    _vectors: list[Vectors] = field(default_factory=list)
    _words: list[frozenset[str]] = field(default_factory=list)
    _marks: list[tuple[frozenset[str], bool]] = field(default_factory=list)

    def near_duplicate(self, question: str) -> bool:
        """Whether a question like this was kept before; if not, it counts as kept from now on."""
        content = frozenset(stems(question))
        marks = (frozenset(numbers(question)), negations(question) > 0)
        vector = self.encoder.encode([question])[0]
        if self._vectors:
            similar = np.stack(self._vectors) @ vector
            for place in np.nonzero(similar >= _NEAR)[0]:
                if shared(content, self._words[int(place)]) >= _NEAR_SHARED and self._marks[int(place)] == marks:
                    return True
        self._vectors.append(vector)
        self._words.append(content)
        self._marks.append(marks)
        return False


def _well_formed(question: str, least: int = _MIN_WORDS) -> bool:
    """Whether it looks like something a person types: some words, not too many, no markup."""
    count = len(words(question))
    return least <= count <= _MAX_QUESTION_WORDS and not _MARKUP.search(question)


def _may_deny(answer: str, said: str) -> bool:
    """Whether an answer's “no” has one in the propositions; a leading No may follow from a limit they state."""
    rest = _YES_NO.sub("", answer, count=1)
    return not negations(rest) or negations(said) > 0
