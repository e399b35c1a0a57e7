"""What can be counted about dialogs without a model: repetition, follow-ups, and how they are grounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rewriter.examples import normalised
from text.words import stems, words

if TYPE_CHECKING:
    from evaluation.questions import Question

NEAR = 0.8


def distinct(texts: Sequence[str], n: int) -> float:
    """Share of different word `n`-grams among all of them: 1 where nothing is ever said twice."""
    grams: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        found = words(text)
        grams.update(tuple(found[i : i + n]) for i in range(len(found) - n + 1))
    return len(grams) / max(1, grams.total())


def repeats(question: Question) -> bool:
    """Whether the user asked (almost) the same before in the conversation."""
    own = set(normalised(question.text).split())
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


def used_share(grounded: Iterable[Sequence[str]], propositions: Mapping[str, str]) -> float:
    """Share of all propositions that some question is grounded in, given the ids of each question's."""
    used = {name for names in grounded for name in names}
    return len(used & propositions.keys()) / max(1, len(propositions))
