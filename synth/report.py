"""The numbers of a run, its data set card, and an estimate of its cost before any request.

Everything is counted from the journal's answers and the results. Texts of dialogs come from a model that read hostile
documents: they are escaped where the card shows them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import regex
from pydantic import BaseModel

from synth.assembling import Rejected
from synth.dialogs import Dialog, PropositionList, read_dialogs
from synth.folder import SIDES, Folder
from synth.propositions import Built, DocumentWindow, extraction
from synth.tasks import Outcome, chat_prompt
from text.files import write_text

EXAMPLES = 10
_MARKDOWN = regex.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")


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
    """A whole run. `regrounded` counts pairs whose misnumbered facts were mended."""

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
    sides: dict[str, SideFacts] = {}

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
    return {
        "lists": len(lists),
        "propositions_in_no_list": unused,
        "pairs_written": pairs,
        "rejected_pairs": _reasons(rejected, "pair"),
        "rejected_wordings": _reasons(rejected, "wording"),
        "dialogs": len(everything),
        "sides": {side: _side(dialogs[side]) for side in SIDES},
    }


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


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of spans, in seconds."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def write_report(folder: Folder, facts: RunFacts) -> None:
    """Write the numbers of a run and its data set card, with dialogs drawn by the run's seed, into its folder."""
    from jinja2 import Environment, StrictUndefined

    write_text(folder.facts, facts.model_dump_json(indent=2) + "\n")
    if not facts.dialogs:
        return
    dialogs = [
        dialog for side in SIDES if folder.dialogs(side).is_file() for dialog in read_dialogs(folder.dialogs(side))
    ]
    drawn = random.Random(facts.seed).sample(dialogs, min(EXAMPLES, len(dialogs)))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["md"] = markdown
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text("utf-8"))
    write_text(folder.card, template.render(facts=facts, dialogs=drawn, sides=SIDES) + "\n")


def made_with_seed(folder: Folder) -> int | None:
    """The seed that a run's files were made with; None where there are none, or none that can be read."""
    try:
        return RunFacts.model_validate_json(folder.facts.read_bytes()).seed
    except (OSError, ValueError):
        return None


def markdown(text: Any) -> str:
    """Text as one line that Markdown shows as it is."""
    return str(_MARKDOWN.sub(r"\\\1", " ".join(str(text).split())))


TOKENS_PER_PROPOSITION = 27
"""Tokens of a document for each proposition made of it."""

PROPOSITION_TOKENS = 22

PAIRS_PER_PROPOSITION = 0.6

PAIR_TOKENS = 45

QUESTION_TOKENS = 12

GROUNDING_TOKENS = 18


@dataclass(frozen=True, slots=True)
class StepCost:
    """Cost of one step: requests, and tokens in and out."""

    step: str
    requests: int
    tokens_in: int
    tokens_out: int

    def price(self, price_in: float, price_out: float) -> float:
        """The cost at these prices for a million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1e6


def estimate(
    windows: Sequence[DocumentWindow], list_size: int, count_tokens: Callable[[str], int], *, dialogs: bool = True
) -> list[StepCost]:
    """The cost of each step, in order; counts of tokens are the encoder's, which is near those of language models."""
    tasks = [extraction(window, count_tokens) for window in windows]
    tokens = sum(count_tokens(task.system) + count_tokens(task.user) for task in tasks)
    text = sum(count_tokens(window.text) for window in windows)
    propositions = round(text / TOKENS_PER_PROPOSITION)
    costs = [StepCost("propositions", len(tasks), tokens, propositions * PROPOSITION_TOKENS)]
    if not dialogs:
        return costs
    lists = -(-propositions // list_size)
    pairs = round(propositions * PAIRS_PER_PROPOSITION)
    facts, talk = propositions * PROPOSITION_TOKENS, pairs * PAIR_TOKENS
    for step, material, answer in (
        ("dialog", facts, talk),
        ("contextualise", talk, pairs * QUESTION_TOKENS),
        ("ground", facts + talk, pairs * GROUNDING_TOKENS),
    ):
        costs.append(StepCost(step, lists, lists * count_tokens(chat_prompt(step).system) + material, answer))
    return costs
