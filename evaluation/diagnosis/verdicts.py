"""Whether an answer is right, and what is wrong with one that is not.

Words are compared, not meanings: stems, numbers, and a `yes` that should be a `no`. A judge model, where one is named,
decides instead. Sentences that are quoted as they stand are right where the gold quote or the gold answer is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import regex

from evaluation.answers import AnsweredTurn, plain
from evaluation.diagnosis.gold import GoldPlace
from evaluation.judge import judged_as
from evaluation.metrics import token_f1
from evaluation.questions import JudgedQuestion
from rewriter.examples import normalised
from rewriter.protocol import Message
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
    """Verdict on one answer. `f1` compares it with the gold answer; `label` says what is wrong, empty where right."""

    right: bool
    f1: float
    label: Label | Literal[""] = ""
    judged: float | None = None
    """A judge's score from 1 to 5."""


def verdict(gold: JudgedQuestion, turn: AnsweredTurn, judge: BaseChatModel | None = None) -> AnswerVerdict:
    """Of a turn that ended; blocks while a judge thinks."""
    silent = turn.status in ("asked", "refused")
    if gold.question.answerability == "unanswerable":
        made_up = turn.status == "answered" and _unsupported(turn)
        return AnswerVerdict(silent, float(silent), "" if silent else "hallucination" if made_up else "false positive")
    if silent:
        return AnswerVerdict(False, 0.0, "false negative")
    answer = own_text(turn)
    expected = gold.question.answer or " ".join(quote.text for quote in gold.quotes)
    f1, held = token_f1(answer, expected), held_in(expected, answer, context=gold.question.text)
    quoted = turn.status == "quoted" and all(held_in(quote.text, answer) >= HELD for quote in gold.quotes or ())
    right = (bool(gold.quotes) and quoted) or _says(expected, answer, f1, held)
    score = None
    if judge is not None and turn.status == "answered":
        parts = {"question": gold.question.text, "expected": expected, "answer": answer}
        score = next((judged_a.score for judged_a in judged_as(judge, CRITERION, "rubric_gold", parts)), None)
        right = right if score is None else score >= JUDGED_RIGHT
    longer = len(answer.split()) - len(expected.split())
    if right and score is None and turn.status == "answered" and longer > BURIED_WORDS and f1 < BURIED:
        return AnswerVerdict(False, f1, "irrelevant detail", score)
    if right:
        return AnswerVerdict(True, f1, "", score)
    if turn.status == "answered" and _unsupported(turn):
        return AnswerVerdict(False, f1, "hallucination", score)
    partly = len(frozenset(stems(expected)) & frozenset(stems(answer))) >= PARTLY * len(frozenset(stems(expected)))
    return AnswerVerdict(False, f1, "missing detail" if partly else "wrong question", score)


def own_text(turn: AnsweredTurn) -> str:
    """The answer without markers, signs of quotation, and what the server says in its own words."""
    messages = history_for_model([Message("assistant", turn.answer)]).messages
    return _QUOTED.sub("", plain(messages[0].text)) if messages else ""


def held_in(text: str, within: str, context: str = "") -> float:
    """The share of the words of `text` that `within` has; 0 where a number of it is missing.

    Words that are `known` already, for the question says them, count only where there are no others.
    """
    wanted = frozenset(stems(text))
    wanted = wanted - frozenset(stems(context)) or wanted
    if numbers(text) - numbers(within):
        return 0.0
    return len(wanted & frozenset(stems(within))) / len(wanted) if wanted else float(text.strip() in within)


def _says(expected: str, answer: str, f1: float, held: float) -> bool:
    first = [text.casefold().split(maxsplit=1)[0].strip(",.:;!") if text.strip() else "" for text in (expected, answer)]
    opposite = sorted(first) == ["no", "yes"]
    lost = bool(numbers(expected) - numbers(answer))
    return not opposite and not lost and (held >= HELD or (f1 >= RIGHT_F1 and held >= PARTLY))


def _unsupported(turn: AnsweredTurn) -> bool:
    """Whether half of what was written, or more, is in none of the passages."""
    return bool(turn.support) and 2 * sum(not statement["supported"] for statement in turn.support) >= len(turn.support)


Stage: TypeAlias = Literal["extraction", "rewriting", "selection", "generation"]


class OracleTurns(Protocol):
    """Asks questions as a chat does, and plays turns again with one thing put right.

    A turn that cannot be played comes back with the status `error`.
    """

    async def ask(self, gold: JudgedQuestion) -> AnsweredTurn:
        """The question as it stands."""

    async def ask_indexed(self, gold: JudgedQuestion) -> AnsweredTurn:
        """The question asked of the same documents and all gold quotes that are missing there."""

    async def again(
        self,
        gold: JudgedQuestion,
        turn: AnsweredTurn,
        *,
        rewrite: str = "",
        add: Sequence[str] = (),
        alone: bool = False,
    ) -> AnsweredTurn:
        """The turn as if the rewriter had said `rewrite`, or with the passages `add` first; `alone`: none but these."""


@dataclass(frozen=True, slots=True)
class StageFinding:
    """Where a turn failed. `oracle` says what was put right, and `answer` what was answered then."""

    stage: Stage
    confirmed: bool
    oracle: str
    answer: str = ""


async def attributed(
    gold: JudgedQuestion,
    turn: AnsweredTurn,
    places: Sequence[GoldPlace],
    turns: OracleTurns,
    judged: Callable[[AnsweredTurn], AnswerVerdict],
) -> StageFinding:
    """Where a wrong answer went wrong, confirmed or not by at most two further turns."""

    def found(stage: Stage, then: AnsweredTurn, oracle: str, *, mends: bool = True) -> StageFinding:
        if then.status == "error":
            return StageFinding(stage, False, f"{oracle}: {then.problem}")
        return StageFinding(stage, judged(then).right is mends, oracle, own_text(then))

    passages = list(dict.fromkeys(passage for place in places for passage in place.passages))
    if not all(place.passages for place in places):
        return found("extraction", await turns.ask_indexed(gold), "the quotes indexed as documents of their own")
    if places and all(place.held(turn.passages) for place in places):
        alone = await turns.again(gold, turn, add=passages, alone=True)
        return found("generation", alone, "the right passages alone as evidence", mends=False)
    # A question without a history needs no rewriting: it stands alone as it is.
    standalone = gold.question.rewrite or ("" if gold.question.conversation else gold.question.text)
    if standalone and normalised(standalone) != normalised(turn.searched):
        then = await turns.again(gold, turn, rewrite=standalone)
        recovered = bool(places) and all(place.held(then.passages) for place in places)
        if then.status != "error" and (recovered or judged(then).right):
            return found("rewriting", then, f"searched for “{standalone}”")
    if not places:
        has_standalone = bool(standalone)
        return StageFinding(
            "generation", has_standalone, "nothing: what is not answered is not lost before" if has_standalone else ""
        )
    added = await turns.again(gold, turn, add=passages)
    return found("selection", added, "the right passages added to the evidence")
