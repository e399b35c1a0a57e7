"""What can be counted about dialogs without a model: repetition, follow-ups, and how they are grounded.

And one thing an encoder can tell: coherence, whether a question belongs to its conversation. The published
QuantiDCE needs weights of its own; this score needs any sentence encoder, and its name belongs to the number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rewriter.conversation import Conversation
from rewriter.examples import normalised
from text.words import stems, words

if TYPE_CHECKING:
    from index.encoders import Encoder

NEAR = 0.8
OTHERS = 50
HISTORY_CHARS = 1000


@dataclass(frozen=True, slots=True)
class GroundedQuestion:
    """A question in its conversation, its answer, and the propositions it is grounded in."""

    id: str
    dialog: str
    question: str
    conversation: Conversation
    answer: str
    propositions: tuple[str, ...]
    """Their ids."""


def distinct(texts: Sequence[str], n: int) -> float:
    """Share of different word `n`-grams among all of them: 1 where nothing is ever said twice."""
    grams: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        found = words(text)
        grams.update(tuple(found[i : i + n]) for i in range(len(found) - n + 1))
    return len(grams) / max(1, grams.total())


def repeats(question: GroundedQuestion) -> bool:
    """Whether the user asked (almost) the same before in the conversation."""
    own = set(normalised(question.question).split())
    for turn in question.conversation.messages:
        if turn.role == "user":
            other = set(normalised(turn.text).split())
            if own and other and len(own & other) >= NEAR * len(own | other):
                return True
    return False


def answer_coverage(answer: str, propositions: Sequence[str]) -> float:
    """Share of the answer's content words that its propositions hold; 1 of an answer without any."""
    wanted = set(stems(answer))
    held = set(stems(" ".join(propositions)))
    return len(wanted & held) / len(wanted) if wanted else 1.0


def used_share(questions: Sequence[GroundedQuestion], propositions: Mapping[str, str]) -> float:
    """Share of all propositions that some question is grounded in."""
    used = {name for question in questions for name in question.propositions}
    return len(used & propositions.keys()) / max(1, len(propositions))


def coherence(questions: Sequence[GroundedQuestion], encoder: Encoder) -> dict[str, float]:
    """By follow-up: the share of other dialogs' questions that are farther from its conversation than it is.

    1 where the question is the likeliest of all to continue the conversation, 0.5 by chance. Compared are the
    embedding of the newest words before it and those of up to 50 questions of other dialogs, at even distances.
    """
    follow_ups = [question for question in questions if question.conversation]
    if not follow_ups:
        return {}
    asked = encoder.encode([question.question for question in follow_ups])
    before = encoder.encode(
        [" ".join(turn.text for turn in q.conversation.messages)[-HISTORY_CHARS:] for q in follow_ups]
    )
    similarity = before @ asked.T
    dialogs = np.array([question.dialog for question in follow_ups])
    found = {}
    for place, question in enumerate(follow_ups):
        others = np.flatnonzero(dialogs != question.dialog)
        others = others[:: max(1, len(others) // OTHERS)]
        if len(others):
            own = similarity[place, place]
            below = (similarity[place, others] < own).mean() + 0.5 * (similarity[place, others] == own).mean()
            found[question.id] = float(below)
    return found
