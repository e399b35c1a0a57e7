"""At which stage a wrong answer went wrong, and whether it is right once that stage is given what it should have had.

Looked at in the order of a turn, the first stage that lost the answer is to blame:

- extraction: what answers the question is not in the index. Oracle: the same question where the quotes are indexed.
- rewriting: it is, was not selected, and a person's rewrite finds it. Oracle: that rewrite.
- selection: it is not found in a person's words either. Oracle: the right passages put into the evidence.
- generation: it was in the evidence. Oracle: nothing but the right passages; confirmed where that mends nothing.

What the documents do not answer cannot have been lost: answering it is generation's fault, unless a person's rewrite is
refused as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from evaluation.answering import AnsweredTurn
from evaluation.diagnosis.gold import GoldPlace
from evaluation.diagnosis.verdicts import AnswerVerdict, own_text
from evaluation.sets.dialogs import JudgedQuestion
from rewriter.examples import normalised

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

    passages = list(dict.fromkeys(one for place in places for one in place.passages))
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
        known = bool(standalone)
        return StageFinding("generation", known, "nothing: what is not answered is not lost before" if known else "")
    added = await turns.again(gold, turn, add=passages)
    return found("selection", added, "the right passages added to the evidence")
