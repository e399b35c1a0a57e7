"""Whether an answer is right, and what is wrong with one that is not.

Words are compared, not meanings: stems, numbers, and a `yes` that should be a `no`. A judge model, where one is named,
decides instead. Sentences that are quoted as they stand are right where the gold quote or the gold answer is in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import regex

from evaluation.answering import AnsweredTurn
from evaluation.judge import judged_as, rubric
from evaluation.metrics.answers import plain
from evaluation.metrics.overlap import token_f1
from evaluation.sets.dialogs import JudgedQuestion
from rewriter.conversation import Message
from server.turn.system_messages import history_for_model
from text.words import numbers, stems

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Label: TypeAlias = Literal[
    "false negative", "false positive", "hallucination", "missing detail", "irrelevant detail", "wrong question"
]
_QUOTED = regex.compile(r"^> ?", regex.MULTILINE)
RIGHT_F1 = 0.5
HELD = 0.6
"""Share of an answer's words that say it, if its numbers are there too."""
PARTLY = 0.3
BURIED, BURIED_WORDS = 0.1, 60
"""An answer of which less is asked for, in so many words more than it takes, buries what is asked for."""
JUDGED_RIGHT = 3.5
CRITERION = {"same": "does the answer say what the expected answer says, without contradicting it?"}


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """What an answer is worth. `f1` compares it with the gold answer; `label` says what is wrong, empty where right."""

    right: bool
    f1: float
    label: Label | Literal[""] = ""
    judged: float | None = None
    """A judge's score from 1 to 5."""


def verdict(gold: JudgedQuestion, turn: AnsweredTurn, judge: BaseChatModel | None = None) -> AnswerVerdict:
    """Of a turn that ended; blocks while a judge thinks."""
    silent = turn.status == "refused" or turn.asks_back
    if gold.question.answerability == "unanswerable":
        made_up = turn.status == "answered" and _unsupported(turn)
        return AnswerVerdict(silent, float(silent), "" if silent else "hallucination" if made_up else "false positive")
    if silent:
        return AnswerVerdict(False, 0.0, "false negative")
    said = own_text(turn)
    expected = gold.question.answer or " ".join(one.text for one in gold.quotes)
    f1, held = token_f1(said, expected), held_in(expected, said, known=gold.question.text)
    quoted = turn.status == "quoted" and all(held_in(one.text, said) >= HELD for one in gold.quotes or ())
    right = (bool(gold.quotes) and quoted) or _says(expected, said, f1, held)
    score = None
    if judge is not None and turn.status == "answered":
        parts = {"question": gold.question.text, "expected": expected, "answer": said}
        score = next((one.score for one in judged_as(judge, CRITERION, rubric(), "rubric_gold", parts)), None)
        right = right if score is None else score >= JUDGED_RIGHT
    longer = len(said.split()) - len(expected.split())
    if right and score is None and turn.status == "answered" and longer > BURIED_WORDS and f1 < BURIED:
        return AnswerVerdict(False, f1, "irrelevant detail", score)
    if right:
        return AnswerVerdict(True, f1, "", score)
    if turn.status == "answered" and _unsupported(turn):
        return AnswerVerdict(False, f1, "hallucination", score)
    partly = len(frozenset(stems(expected)) & frozenset(stems(said))) >= PARTLY * len(frozenset(stems(expected)))
    return AnswerVerdict(False, f1, "missing detail" if partly else "wrong question", score)


def own_text(turn: AnsweredTurn) -> str:
    """The answer without markers, signs of quotation, and what the server says in its own words."""
    messages = history_for_model([Message("assistant", turn.answer)]).messages
    return _QUOTED.sub("", plain(messages[0].text)) if messages else ""


def held_in(text: str, within: str, known: str = "") -> float:
    """The share of the words of `text` that `within` has; 0 where a number of it is missing.

    Words that are `known` already, for the question says them, count only where there are no others.
    """
    wanted = frozenset(stems(text))
    wanted = wanted - frozenset(stems(known)) or wanted
    if numbers(text) - numbers(within):
        return 0.0
    return len(wanted & frozenset(stems(within))) / len(wanted) if wanted else float(text.strip() in within)


def _says(expected: str, said: str, f1: float, held: float) -> bool:
    first = [text.casefold().split(maxsplit=1)[0].strip(",.:;!") if text.strip() else "" for text in (expected, said)]
    opposite = sorted(first) == ["no", "yes"]
    lost = bool(numbers(expected) - numbers(said))
    return not opposite and not lost and (held >= HELD or (f1 >= RIGHT_F1 and held >= PARTLY))


def _unsupported(turn: AnsweredTurn) -> bool:
    """Whether half of what was written, or more, is in none of the passages."""
    return bool(turn.support) and 2 * sum(not one["supported"] for one in turn.support) >= len(turn.support)
