"""Two rewriters compared on held-out questions, by the code a chat turn searches with.

Follow-ups and questions that stand alone are judged apart, at passage and document level; differences are tested by
paired randomisation over whole conversations. `candidates` makes rows to train a cross-encoder on: a judged question
with passages that a turn's search finds for it, and the present scores for the stand-alone question where a person
wrote one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, cast

from evaluation.adaptation.held_out import LEAST, HeldOutQuestion, ranking
from evaluation.metrics import per_question, randomisation
from evaluation.questions import EvaluationError, Question
from evaluation.run_folder import percentiles
from evaluation.sets import EvalSet, JudgedLevel
from index.collection import Collection
from index.rerank import PASSAGE_TOKENS, QUESTION_TOKENS, CrossEncoderReranker, Reranker
from rewriter.reranker_rows import RankedPassage, RerankExample, read_rows, write_rows
from server.turn.search import TurnSearch
from text.asking import QuestionContext, asking
from text.files import replacing

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


def write_candidates(
    path: Path, questions: Iterable[HeldOutQuestion], also: Sequence[Path], search: TurnSearch, name: str
) -> int:
    """Write rows to train a cross-encoder on: the questions with passages of the collection, and those of `also`.

    How many there are. Raises EvaluationError for none, ExampleError where a file of `also` holds no such rows.
    """
    # What is searched is a whole collection wherever something is adapted.
    collection = cast("Collection", search.collection(name))
    examples = candidates(judged(questions, collection), collection, replace(search, reranker=None), search.reranker)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        count = write_rows(draft, chain(examples, chain.from_iterable(map(read_rows, also))))
    if not count:
        raise EvaluationError(
            "No question of the dialogs has an answer in the documents: there is nothing to train on."
        )
    return count


def judged(held_out: Iterable[HeldOutQuestion], collection: Collection) -> EvalSet:
    """The questions as a set that is judged by passages and documents of the collection."""
    document_ids = {document.id for document in collection.documents()}
    questions = list[Question]()
    passages: dict[str, dict[str, int]] = {}
    documents: dict[str, dict[str, int]] = {}
    for question in held_out:
        questions.append(question)
        for place in question.places:
            if place.document_id in document_ids:
                held = [
                    passage.id
                    for passage in collection.passages(place.document_id)
                    if place.start < passage.end and passage.start < place.end
                ]
                passages.setdefault(question.id, {}).update(dict.fromkeys(held, 1))
                documents.setdefault(question.id, {})[place.document_id] = 1
    levels = (JudgedLevel("passage", passages), JudgedLevel("document", documents, "document"))
    return EvalSet("dialogs", tuple(questions), levels)


DEPTH = 40
"""So far down the list are passages taken from."""
FIRST, FURTHER = 4, 3
"""So many from its top, and so many at random from below."""
RELEVANT = 2
"""Relevant passages are taken up to so many, those that the search missed last."""


def candidates(
    chosen: EvalSet,
    collection: Collection,
    search: TurnSearch,
    teacher: Reranker | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    seed: int = 1,
) -> Iterator[RerankExample]:
    """The rows of a set judged by passages of `collection`; questions without a relevant one are left out."""
    qrels, questions = chosen.levels[0].qrels, chosen.judged
    for done, question in enumerate(questions):
        progress(f"{chosen.name}: searching", done, len(questions))
        wanted = [passage_id for passage_id, value in qrels.get(question.id, {}).items() if value > 0]
        searched = search.find(question.text, collection=collection.name, conversation=question.conversation, k=DEPTH)
        texts = {hit.passage.id: hit.passage.indexed_text for hit in searched.hits}
        listed = list(texts)
        texts |= _missing(
            chosen, question, [passage_id for passage_id in wanted if passage_id not in texts], collection
        )
        chosen_ids = _taken(
            listed, [passage_id for passage_id in wanted if passage_id in texts], random.Random(f"{seed}:{question.id}")
        )
        if not any(passage_id in wanted for passage_id in chosen_ids) or all(
            passage_id in wanted for passage_id in chosen_ids
        ):
            continue
        scores = _scores(teacher, question, [texts[passage_id] for passage_id in chosen_ids])
        yield RerankExample(
            id=question.id,
            history=question.conversation.messages,
            question=question.text,
            rewrite=question.rewrite,
            words=tuple(term.text for term in searched.plan.rewrite.expansion),
            source=chosen.name,
            passages=tuple(
                RankedPassage(texts[passage_id], passage_id in wanted, score)
                for passage_id, score in zip(chosen_ids, scores, strict=True)
            ),
        )
    progress(f"{chosen.name}: searching", len(questions), len(questions))


def _missing(chosen: EvalSet, question: Question, wanted: Sequence[str], collection: Collection) -> Mapping[str, str]:
    """The texts of relevant passages that the search did not find, from the documents that are relevant too."""
    if not wanted:
        return {}
    judged = {name for level in chosen.levels if level.by == "document" for name in level.qrels.get(question.id, ())}
    present = judged & {document.id for document in collection.documents()}
    passages = (passage for name in sorted(present) for passage in collection.passages(name))
    return {passage.id: passage.indexed_text for passage in passages if passage.id in wanted}


def _taken(listed: Sequence[str], wanted: Sequence[str], rng: random.Random) -> list[str]:
    """Relevant passages, those at the top of the list, and some from below."""
    relevant = [passage_id for passage_id in listed if passage_id in wanted] + [
        passage_id for passage_id in wanted if passage_id not in listed
    ]
    others = [passage_id for passage_id in listed if passage_id not in wanted]
    below = others[FIRST:]
    return [*relevant[:RELEVANT], *others[:FIRST], *rng.sample(below, min(FURTHER, len(below)))]


def _scores(teacher: Reranker | None, question: Question, passages: Sequence[str]) -> Sequence[float | None]:
    """Score each passage under the stand-alone question with the present cross-encoder; empty without one."""
    if not isinstance(teacher, CrossEncoderReranker) or (question.conversation and not question.rewrite):
        return [None] * len(passages)
    question_text = question.rewrite or question.text
    return [round(score, 3) for score in pair_scores(teacher, question_text, passages)]


def pair_scores(reranker: CrossEncoderReranker, question: str, passages: Sequence[str]) -> list[float]:
    """Score a stand-alone question against each passage; return logits in the passages' order."""
    scorer, lengths = reranker.scorer, reranker.lengths
    text = asking(question, QuestionContext(), lengths, scorer.cut) if lengths is not None else question
    text = scorer.cut(text, lengths.total if lengths is not None else QUESTION_TOKENS)[0]
    cut = [scorer.cut(passage, PASSAGE_TOKENS)[0] for passage in passages]
    return [float(score) for score in scorer.score(text, cut)]
