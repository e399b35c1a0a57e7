"""Held-out questions, what answers them in the documents, and two searches compared on them.

The questions are of dialogs that a language model wrote from propositions, each of which knows its source, or of turns
that people reviewed. Follow-ups and questions that stand alone are judged apart, at passage and document level;
differences are tested by paired randomisation over whole conversations.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from evaluation.metrics import per_question
from evaluation.questions import EvaluationError, JudgedQuestion, Question, Quote, dialog_questions
from evaluation.retrieval import DEPTH, SYSTEM, Ranking
from evaluation.run_folder import Test, percentiles, tested
from evaluation.sets import EvalSet
from rewriter.examples import read_examples, write_examples
from rewriter.protocol import Conversation, Message
from server.turn.search import TurnSearch
from synth import Folder, read_dialogs, read_propositions
from text.files import replacing, write_text

TRAIN, HELD = "train.jsonl", "held.jsonl"


def write_pairs(data: Path, dialogs: Folder | None, rows: Sequence[Path]) -> tuple[int, int]:
    """Write the training side into `data`, and the held-out side where there are dialogs; how many went where.

    Dev and test dialogs are held out. Raises EvaluationError where the dialogs are not finished or nothing is there
    to train on, and ExampleError where a file cannot be read.
    """
    train, held = list(rows), 0
    if dialogs is not None:
        wanted = (*map(dialogs.dialogs, ("train", "dev", "test")), dialogs.propositions)
        if missing := [path.name for path in wanted if not path.is_file()]:
            raise EvaluationError(
                f"The dialogs in {dialogs.path} are not finished (there is no {missing[0]}): run the same command "
                "again to go on, or bring `anaphora synth` to its end there."
            )
        train.insert(0, wanted[0])
        write_text(data / HELD, "".join(path.read_text("utf-8") for path in wanted[1:3]))
        held = sum(1 for _ in read_examples(data / HELD))
    with replacing(data / TRAIN) as draft:
        count = write_examples(draft, chain.from_iterable(map(read_examples, train)))
    if not count:
        raise EvaluationError(f"There is no row to train on in {', '.join(map(str, train))}.")
    return count, held


def drawn(chosen: EvalSet, most: int, seed: int) -> EvalSet:
    """The set with at most `most` of its judged questions, whole conversations, in an order the seed gives."""
    dialogs: dict[str, list[Question]] = {}
    for question in chosen.judged:
        dialogs.setdefault(question.dialog, []).append(question)
    order = sorted(dialogs)
    random.Random(seed).shuffle(order)
    questions: list[Question] = []
    for dialog in order:
        if len(questions) >= most:
            break
        questions += dialogs[dialog]
    return replace(chosen, questions=tuple(questions))


def from_dialogs(dialogs: Path, propositions: Path) -> Iterator[JudgedQuestion]:
    """The follow-ups of a file of annotated dialogs, in order, each with the sentences of the documents that answer it.

    Raises BadStore where a file is spoilt.
    """
    quotes = {
        proposition.id: Quote(proposition.document_id, proposition.source)
        for proposition in read_propositions(propositions)
    }
    for dialog in read_dialogs(dialogs):
        history: list[Message] = []
        for n, turn in enumerate(dialog.turns):
            if turn.asks and history:
                question = Question(
                    id=f"{dialog.dialog_id}#{n}",
                    dialog=dialog.dialog_id,
                    text=turn.text,
                    conversation=Conversation(tuple(history)),
                    rewrite=turn.rewrite or turn.text,
                )
                yield JudgedQuestion(
                    question, quotes=tuple(quotes[unit] for unit in turn.relevant or () if unit in quotes)
                )
            history.append(Message(turn.role, turn.text))


def from_reviewed(path: Path) -> Iterator[JudgedQuestion]:
    """The questions of a file of reviewed conversations that were judged wholly."""
    return (judged for judged in dialog_questions(path) if judged.question.rewrite and judged.quotes)


LEAST = 30
"""Fewer follow-ups than that decide nothing."""
CONVERSATIONS = 12
"""Of fewer reviewed conversations no difference is ever sure."""
REVIEWED = "reviewed.jsonl"
HELD_OUT = 0.5
"""The share of reviewed conversations that judges."""


def split(everything: Path, train: Path, held: Path, seed: int) -> None:
    """Share the conversations of a file out to two others; of those that judge, nothing that nobody judged wholly is
    evidence. Raises EvaluationError for fewer than two."""
    lines = everything.read_text("utf-8").splitlines(keepends=True)
    if len(lines) < 2:
        raise EvaluationError(
            f"Fewer than two conversations of this collection were reviewed ({len(lines)}): one half learns, the other "
            f"judges. At least {CONVERSATIONS} conversations, with {LEAST} follow-ups with marked passages in the half "
            "that judges, decide anything. Review further turns on the workbench."
        )
    random.Random(seed).shuffle(lines)
    half = max(1, round(HELD_OUT * len(lines)))
    write_text(held, "".join(map(_judged, lines[:half])))
    write_text(train, "".join(lines[half:]))


def _judged(line: str) -> str:
    """Return the line of a conversation without the evidence of its turns that only use speaks for."""
    row = json.loads(line)
    for turn in row["turns"]:
        if turn.get("judged") is False:
            turn.pop("evidence", None)
    return json.dumps(row, ensure_ascii=False) + "\n"


MEASURES = ("AP", "R@5", "R@10", "R@20", "nDCG@5")
DECIDES = "AP"
SURE = 0.05
"""A difference with a larger p is none."""

Group = Literal["follow-ups", "stand-alone"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores of one rewriter: `values[level][question][measure]`, and milliseconds a rewrite at p50 and p95."""

    values: dict[str, dict[str, dict[str, float]]]
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class AdaptationVerdict:
    """Whether the new rewriter may serve, why, and the changes behind it: tests whose set is the group."""

    promote: bool
    reason: str
    changes: tuple[Test, ...]


def measure(
    search: TurnSearch, collection: str, chosen: EvalSet, counted: Callable[[], None] = lambda: None
) -> Measured:
    """Search for every question as a turn would and judge what comes, passages and documents."""
    ranking, seconds = Ranking(SYSTEM), list[float]()
    for question in chosen.questions:
        searched = search.find(question.text, collection=collection, conversation=question.conversation, k=DEPTH)
        ranking.add(question, searched.hits)
        seconds.append(searched.plan.rewrite.seconds)
        counted()
    values = {
        level.name: per_question(
            ranking.at(level), {name: level.qrels[name] for name in ranking.found if level.qrels.get(name)}, MEASURES
        )
        for level in chosen.levels
    }
    p50, p95 = percentiles(seconds)
    return Measured(values, 1e3 * p50, 1e3 * p95)


def judge(questions: Sequence[Question], before: Measured, after: Measured) -> AdaptationVerdict:
    """Better for follow-ups, surely, at passage level; worse, surely, for nothing: only then may the new one serve."""
    groups: dict[Group, list[Question]] = {
        "follow-ups": [question for question in questions if question.needs_rewrite],
        "stand-alone": [question for question in questions if not question.needs_rewrite],
    }
    changes = tuple(
        change
        for group, members in groups.items()
        for level in ("passage", "document")
        for change in _changes(group, level, members, before, after)
    )
    deciding = {(change.set, change.level): change for change in changes if change.measure == DECIDES}
    follow = deciding.get(("follow-ups", "passage"))
    if follow is None or follow.n < LEAST:
        count = follow.n if follow else 0
        return AdaptationVerdict(
            False, f"{count} held-out follow-ups are too few to decide by ({LEAST} are needed).", changes
        )
    verdict = f"MAP of follow-ups {follow.before:.3f} → {follow.after:.3f} (p = {follow.p:.3f})"
    if not (follow.p <= SURE and follow.difference > 0):
        return AdaptationVerdict(False, f"Follow-ups do not surely improve: {verdict}.", changes)
    worse = [change for change in deciding.values() if change.p <= SURE and change.difference < 0]
    if worse:
        drop = worse[0]
        return AdaptationVerdict(
            False,
            f"{drop.set} get worse at {drop.level} level: MAP {drop.before:.3f} → {drop.after:.3f} (p = {drop.p:.3f}).",
            changes,
        )
    return AdaptationVerdict(True, f"{verdict}; questions that stand alone are no worse.", changes)


def _changes(group: Group, level: str, questions: Sequence[Question], before: Measured, after: Measured) -> list[Test]:
    dialogs = {question.id: question.dialog for question in questions}
    old, new = before.values.get(level, {}), after.values.get(level, {})
    judged = [name for name in dialogs if name in old and name in new]
    changes = list[Test]()
    for measure in MEASURES if judged else ():
        was, now = ({name: side[name][measure] for name in judged} for side in (old, new))
        changes.append(tested((group, level, measure), ("before", "after"), was, now, dialogs.__getitem__))
    return changes
