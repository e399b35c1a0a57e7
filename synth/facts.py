"""The numbers of a run, as a file: what was asked, what came of it, how long it took.

Everything is counted from the journal's answers and the results; reports only read this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from synth.dialogs.assemble import Rejected
from synth.dialogs.lists import Dialog, PropositionList
from synth.errors import BadStore
from synth.folder import SIDES
from synth.propositions.build import Built
from synth.running import Outcome


class StepFacts(BaseModel):
    """One step: items by verdict, answers over all attempts, tokens as the server counted them, and time.

    `seconds` is the sum over answers, `wall_seconds` the time in which at least one was being written.
    """

    items: int
    verdicts: dict[str, int]
    answers: int
    tokens_in: int
    tokens_out: int
    seconds: float
    wall_seconds: float
    prompt: str


class SideFacts(BaseModel):
    """One side of the split."""

    documents: int
    dialogs: int
    questions: int
    needing_rewrite: int


class RunFacts(BaseModel):
    """A whole run. `question_words` and the like are distributions: value → how often.

    `regrounded` counts pairs whose misnumbered facts were mended.
    """

    model: str
    temperature: float
    seed: int
    list_size: int
    window_tokens: int
    documents: int
    windows: int
    steps: dict[str, StepFacts]
    sentences_written: int
    propositions: int
    duplicates_merged: int
    left_out: dict[str, int]
    lists: int = 0
    propositions_in_no_list: int = 0
    pairs_written: int = 0
    rejected_pairs: dict[str, int] = {}
    rejected_wordings: dict[str, int] = {}
    regrounded: int = 0
    dialogs: int = 0
    greetings: int = 0
    thanks: int = 0
    sides: dict[str, SideFacts] = {}
    questions_per_dialog: dict[int, int] = {}
    question_words: dict[int, int] = {}
    rewrite_words: dict[int, int] = {}
    answer_words: dict[int, int] = {}
    propositions_per_question: dict[int, int] = {}

    @property
    def questions(self) -> int:
        return sum(side.questions for side in self.sides.values())

    @property
    def needing_rewrite(self) -> int:
        return sum(side.needing_rewrite for side in self.sides.values())

    @property
    def share_needing_rewrite(self) -> float:
        """Of the questions, those that are not understood alone; the paper has 27 to 36 %."""
        return self.needing_rewrite / self.questions if self.questions else 0.0


def step_facts(outcomes: Sequence[Outcome[Any]], attempts: Iterable[Any], prompt: str) -> StepFacts:
    """The facts of a step from its outcomes and every answer that was given for it."""
    answers = list(attempts)
    return StepFacts(
        items=len(outcomes),
        verdicts=dict(Counter(outcome.verdict for outcome in outcomes)),
        answers=len(answers),
        tokens_in=sum(answer.tokens_in for answer in answers),
        tokens_out=sum(answer.tokens_out for answer in answers),
        seconds=round(sum(answer.seconds for answer in answers), 1),
        wall_seconds=round(_covered((answer.at - answer.seconds, answer.at) for answer in answers if answer.at), 1),
        prompt=prompt,
    )


def proposition_facts(built: Built) -> dict[str, Any]:
    """Count the outcomes of the sentences the model wrote."""
    return {
        "sentences_written": built.written,
        "propositions": len(built.kept),
        "duplicates_merged": built.duplicates,
        "left_out": dict(Counter(left.reason for left in built.left_out).most_common()),
    }


def dialog_facts(
    lists: Sequence[PropositionList],
    unused: int,
    pairs: int,
    dialogs: dict[str, list[Dialog]],
    rejected: Sequence[Rejected],
) -> dict[str, Any]:
    """Count the outcomes of the lists."""
    everything = [dialog for side in SIDES for dialog in dialogs[side]]
    questions = [turn for dialog in everything for turn in dialog.questions()]
    answers = [turn for dialog in everything for turn in dialog.turns if turn.role == "assistant"]
    kinds = Counter(turn.kind for dialog in everything for turn in dialog.turns if turn.role == "user")
    return {
        "lists": len(lists),
        "propositions_in_no_list": unused,
        "pairs_written": pairs,
        "rejected_pairs": _reasons(rejected, "pair"),
        "rejected_wordings": _reasons(rejected, "wording"),
        "dialogs": len(everything),
        "greetings": kinds["greeting"],
        "thanks": kinds["thanks"],
        "sides": {side: _side(dialogs[side]) for side in SIDES},
        "questions_per_dialog": _spread(len(dialog.questions()) for dialog in everything),
        "question_words": _spread(len(turn.text.split()) for turn in questions),
        "rewrite_words": _spread(len((turn.rewrite or "").split()) for turn in questions),
        "answer_words": _spread(len(turn.text.split()) for turn in answers),
        "propositions_per_question": _spread(len(turn.relevant or ()) for turn in questions),
    }


def read_facts(path: Path) -> RunFacts:
    """The numbers of a run. Raises BadStore where it has none."""
    try:
        return RunFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise BadStore(f"{path.parent} holds no finished run of `anaphora synth`; name its --out folder.") from None
    except ValidationError as error:
        raise BadStore(f"{path} was not written by this version: run `anaphora synth` again.") from error


def _side(dialogs: Sequence[Dialog]) -> SideFacts:
    questions = [turn for dialog in dialogs for turn in dialog.questions()]
    return SideFacts(
        documents=len({name for dialog in dialogs for name in dialog.documents}),
        dialogs=len(dialogs),
        questions=len(questions),
        needing_rewrite=sum(turn.needs_rewrite for turn in questions),
    )


def _reasons(rejected: Sequence[Rejected], what: str) -> dict[str, int]:
    return dict(Counter(rejection.reason for rejection in rejected if rejection.what == what).most_common())


def _spread(values: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(values).items()))


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of spans, in seconds."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
