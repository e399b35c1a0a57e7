"""Held-out questions, where in the documents their answers stand, and two searches compared on them.

The questions are of dialogs that a language model wrote from propositions, each of which knows its place, or of turns
that people reviewed. Follow-ups and questions that stand alone are judged apart, at passage and document level;
differences are tested by paired randomisation over whole conversations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evaluation.metrics import per_question, randomisation
from evaluation.questions import EvaluationError, Question, dialog_questions, document_id, spans
from evaluation.run_folder import percentiles
from rewriter.examples import read_examples, write_examples
from rewriter.protocol import Conversation, Message
from server.turn.search import TurnSearch
from synth import Folder
from text.files import replacing, write_text

if TYPE_CHECKING:
    from index.collection import Collection
    from index.query import Hit


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


def drawn(questions: Sequence[HeldOutQuestion], most: int, seed: int) -> list[HeldOutQuestion]:
    """At most `most` questions, whole conversations, in an order the seed gives."""
    dialogs: dict[str, list[HeldOutQuestion]] = {}
    for question in questions:
        dialogs.setdefault(question.dialog, []).append(question)
    order = sorted(dialogs)
    random.Random(seed).shuffle(order)
    chosen: list[HeldOutQuestion] = []
    for dialog in order:
        if len(chosen) >= most:
            break
        chosen += dialogs[dialog]
    return chosen


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A stretch of a document's text that answers a question; offsets count characters."""

    document_id: str
    start: int
    end: int

    @property
    def id(self) -> str:
        """Names the place in a run."""
        return f"{self.document_id}\x1f{self.start}\x1f{self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutQuestion(Question):
    """A question, and where what answers it stands."""

    places: tuple[AnswerSpan, ...]

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.document_id for place in self.places))


def ranking(question: HeldOutQuestion, hits: Sequence[Hit]) -> list[str]:
    """The hits as places: one that holds places of the question's as those, any other under its own id."""
    ids: list[str] = []
    for hit in hits:
        passage = hit.passage
        held = [
            place.id
            for place in question.places
            if place.document_id == passage.document_id and place.start < passage.end and passage.start < place.end
        ]
        ids += [unit for unit in held or [passage.id] if unit not in ids]
    return ids


def from_dialogs(dialogs: Path, propositions: Path) -> Iterator[HeldOutQuestion]:
    """The questions of a file of annotated dialogs, in order. Raises BadStore where a file is spoilt."""
    from synth import read_dialogs, read_propositions

    places = {
        proposition.id: tuple(AnswerSpan(s.document_id, s.start, s.end) for s in proposition.sources)
        or (AnswerSpan(proposition.document_id, proposition.start, proposition.end),)
        for proposition in read_propositions(propositions)
    }
    for dialog in read_dialogs(dialogs):
        history: list[Message] = []
        for n, turn in enumerate(dialog.turns):
            if turn.asks and history:
                yield HeldOutQuestion(
                    id=f"{dialog.dialog_id}#{n}",
                    dialog=dialog.dialog_id,
                    text=turn.text,
                    conversation=Conversation(tuple(history)),
                    rewrite=turn.rewrite or turn.text,
                    places=tuple(place for unit in turn.relevant or () for place in places.get(unit, ())[:1]),
                )
            history.append(Message(turn.role, turn.text))


LEAST = 30
"""Fewer follow-ups than that decide nothing."""
CONVERSATIONS = 12
"""Of fewer reviewed conversations no difference is ever sure."""
REVIEWED = "reviewed.jsonl"
HELD_OUT = 0.5
"""The share of reviewed conversations that judges."""


def split(everything: Path, train: Path, held: Path, seed: int) -> None:
    """Share the conversations of a file out to two others. Raises EvaluationError for fewer than two."""
    lines = everything.read_text("utf-8").splitlines(keepends=True)
    if len(lines) < 2:
        raise EvaluationError(
            f"Fewer than two conversations of this collection were reviewed ({len(lines)}): one half learns, the other "
            f"judges. At least {CONVERSATIONS} conversations, with {LEAST} follow-ups with marked passages in the half "
            "that judges, decide anything. Review further turns on the workbench."
        )
    random.Random(seed).shuffle(lines)
    half = max(1, round(HELD_OUT * len(lines)))
    write_text(held, "".join(lines[:half]))
    write_text(train, "".join(lines[half:]))


def from_reviewed(path: Path, collection: Collection) -> Iterator[HeldOutQuestion]:
    """Read the questions from a file of reviewed conversations that are complete and whose answers are still in the
    collection."""
    document_ids = {document.id for document in collection.documents()}
    for judged_question in dialog_questions(path):
        question, places = judged_question.question, list[AnswerSpan]()
        for quote in judged_question.quotes:
            if name := document_id(quote.document, document_ids):
                places += [AnswerSpan(name, *at) for at in spans(collection.document(name).text, quote.text)[:1]]
        if question.rewrite and places:
            yield HeldOutQuestion(
                id=f"{question.dialog}#{question.id}",
                dialog=question.dialog,
                text=question.text,
                conversation=question.conversation,
                rewrite=question.rewrite,
                places=tuple(places),
            )


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
class MeasuredChange:
    """A measure before and after, over the questions of one group. `p` is of the difference, two-sided."""

    group: Group
    level: str
    measure: str
    questions: int
    before: float
    after: float
    p: float

    @property
    def worse(self) -> bool:
        """Whether it fell, surely."""
        return self.after < self.before and self.p <= SURE

    @property
    def better(self) -> bool:
        """Whether it rose, surely."""
        return self.after > self.before and self.p <= SURE


@dataclass(frozen=True, slots=True)
class AdaptationVerdict:
    """Whether the new rewriter may serve, why, and the changes behind it."""

    promote: bool
    reason: str
    changes: tuple[MeasuredChange, ...]


def measure(
    search: TurnSearch,
    collection: str,
    questions: Sequence[HeldOutQuestion],
    k: int = 100,
    counted: Callable[[], None] = lambda: None,
) -> Measured:
    """Search for every question as a turn would and judge what comes, passages and documents."""
    passages: dict[str, list[str]] = {}
    documents: dict[str, list[str]] = {}
    seconds = list[float]()
    for question in questions:
        searched = search.find(question.text, collection=collection, conversation=question.conversation, k=k)
        passages[question.id] = ranking(question, searched.hits)
        documents[question.id] = list(dict.fromkeys(hit.passage.document_id for hit in searched.hits))
        seconds.append(searched.plan.rewrite.seconds)
        counted()
    wanted = {
        "passage": {
            question.id: {place.id: 1 for place in question.places} for question in questions if question.places
        },
        "document": {question.id: dict.fromkeys(question.documents, 1) for question in questions if question.documents},
    }
    runs = {"passage": passages, "document": documents}
    p50, p95 = percentiles(seconds)
    values = {level: per_question(runs[level], qrels, MEASURES) for level, qrels in wanted.items()}
    return Measured(values, 1e3 * p50, 1e3 * p95)


def judge(questions: Sequence[HeldOutQuestion], before: Measured, after: Measured) -> AdaptationVerdict:
    """Better for follow-ups, surely, at passage level; worse, surely, for nothing: only then may the new one serve."""
    groups: dict[Group, list[HeldOutQuestion]] = {
        "follow-ups": [question for question in questions if question.needs_rewrite],
        "stand-alone": [question for question in questions if not question.needs_rewrite],
    }
    changes = tuple(
        change
        for group, members in groups.items()
        for level in ("passage", "document")
        for change in _changes(group, level, members, before, after)
    )
    deciding = {(change.group, change.level): change for change in changes if change.measure == DECIDES}
    follow = deciding.get(("follow-ups", "passage"))
    if follow is None or follow.questions < LEAST:
        count = follow.questions if follow else 0
        return AdaptationVerdict(
            False, f"{count} held-out follow-ups are too few to decide by ({LEAST} are needed).", changes
        )
    verdict = f"MAP of follow-ups {follow.before:.3f} → {follow.after:.3f} (p = {follow.p:.3f})"
    if not follow.better:
        return AdaptationVerdict(False, f"Follow-ups do not surely improve: {verdict}.", changes)
    worse = [change for change in deciding.values() if change.worse]
    if worse:
        drop = worse[0]
        return AdaptationVerdict(
            False,
            f"{drop.group} get worse at {drop.level} level: "
            f"MAP {drop.before:.3f} → {drop.after:.3f} (p = {drop.p:.3f}).",
            changes,
        )
    return AdaptationVerdict(True, f"{verdict}; questions that stand alone are no worse.", changes)


def _changes(
    group: Group, level: str, questions: Sequence[HeldOutQuestion], before: Measured, after: Measured
) -> list[MeasuredChange]:
    old, new = before.values[level], after.values[level]
    judged = [question for question in questions if question.id in old and question.id in new]
    if not judged:
        return []
    clusters = [question.dialog for question in judged]
    changes = list[MeasuredChange]()
    for name in MEASURES:
        pairs = [(old[question.id][name], new[question.id][name]) for question in judged]
        p = randomisation([b - a for a, b in pairs], clusters)
        n = len(pairs)
        changes.append(
            MeasuredChange(group, level, name, n, sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n, p)
        )
    return changes
