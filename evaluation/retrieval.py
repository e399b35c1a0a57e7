"""Retrieval measured: every question of a set searched by the code of a chat turn, and the rankings scored.

Reranking has no time limit here, so that quality does not depend on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evaluation.metrics import FULL_MEASURES, by_parent, per_question, run_lines
from evaluation.questions import MissingSet, Question
from evaluation.run_folder import Latency, RunWriter, Scores, metrics_of, percentiles
from evaluation.sets import EvalSet, JudgedLevel, S, placed
from index.documents import Hit
from rewriter.protocol import Rewrite
from server.settings import Settings
from server.turn.search import TurnSearch

if TYPE_CHECKING:
    from index.collection import Collection

SYSTEM = "search"
"""The name under which a run keeps what a chat would find."""
DEPTH = 100
"""Length of a ranking."""
PATIENCE = 600.0
SHOWN = 5
SHOWN_CHARS = 400


def patient(settings: Settings, seconds: float = PATIENCE) -> Settings:
    """Return `settings` with so many seconds for the cross-encoder: results must not depend on a machine's load."""
    profile = settings.retrieval.profile.model_copy(update={"rerank_seconds": seconds})
    return settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"profile": profile})})


@dataclass(slots=True)
class Ranking:
    """Ranking by one system: ids by question, best first, and the passages behind the first of them."""

    system: str
    found: dict[str, list[str]] = field(default_factory=dict)
    passages: dict[str, Hit] = field(default_factory=dict)
    document_of: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, question: Question, hits: Sequence[Hit]) -> None:
        """Take in what was found for a question, best first."""
        self.found[question.id] = [hit.passage.id for hit in hits]
        self.passages.update((hit.passage.id, hit) for hit in hits[:SHOWN])
        self.document_of.update((hit.passage.id, (hit.passage.document_id,)) for hit in hits)

    def at(self, level: JudgedLevel) -> dict[str, list[str]]:
        """The run over what `level` judges."""
        if level.by == "unit":
            return self.found
        return by_parent(self.found, self.document_of if level.by == "document" else level.parents)


def measure_search(
    chosen: EvalSet,
    collection: Collection,
    search: TurnSearch,
    writer: RunWriter,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> None:
    """Search for every judged question as a chat would, and write scores, rankings and latencies into the run.

    Raises MissingSet where nothing in the set is judged.
    """
    chosen = judged_in(chosen, collection, writer)
    questions, ranking = chosen.judged, Ranking(SYSTEM)
    rewrites, seconds = dict[str, Rewrite](), list[float]()
    for done, question in enumerate(questions):
        progress(f"{chosen.name}: searching", done, len(questions))
        started = time.perf_counter()
        searched = search.find(question.text, collection="", conversation=question.conversation, k=DEPTH)
        seconds.append(time.perf_counter() - started)
        rewrites[question.id] = searched.plan.rewrite
        ranking.add(question, searched.hits)
    progress(f"{chosen.name}: searching", len(questions), len(questions))
    measure(chosen, questions, [ranking], writer)
    writer.latencies.append(Latency(chosen.name, SYSTEM, *percentiles(seconds), len(seconds)))
    write_texts(chosen, questions, [ranking], {SYSTEM: rewrites}, writer)


def judged_in(chosen: S, collection: Collection, writer: RunWriter) -> S:
    """The set judged by passages of the collection; the run notes how many questions that leaves out.

    Raises MissingSet where no question is left.
    """
    quoting, chosen = len(chosen.judged), placed(chosen, collection)
    left_out = quoting - len(chosen.judged)
    if not chosen.judged:
        raise MissingSet(f"No question of {chosen.name} is judged: there is nothing to measure retrieval by.")
    if left_out:
        writer.notes.append(f"{chosen.name}: what {left_out} questions quote is in no passage; left out.")
    return chosen


def measure(
    chosen: EvalSet, questions: Sequence[Question], rankings: Sequence[Ranking], writer: RunWriter
) -> dict[tuple[str, str], Scores]:
    """Score rankings at every level, by level and system; qrels, runs and scores go to the writer."""
    everything: dict[tuple[str, str], Scores] = {}
    by_id = {question.id: question for question in questions}
    for level in chosen.levels:
        qrels = {name: level.qrels[name] for name in by_id if level.qrels.get(name)}
        with writer.path(chosen.name, f"{level.name}.qrels.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{q}\t{item}\t{value}\n" for q, judged in qrels.items() for item, value in judged.items())
        for ranking in rankings:
            name, run = ranking.system, ranking.at(level)
            with writer.path(chosen.name, name, f"{level.name}.trec").open("w", encoding="utf-8") as file:
                for question in questions:
                    ranked = ((item, 1 / rank) for rank, item in enumerate(run[question.id], 1))
                    file.writelines(run_lines(question.id, ranked, "anaphora"))
            scores = everything[level.name, name] = per_question(run, qrels, FULL_MEASURES)
            writer.write_scores(chosen.name, name, level.name, scores)
            writer.metrics += metrics_of(chosen.name, level.name, name, scores, by_id)
    return everything


def write_texts(
    chosen: EvalSet,
    questions: Sequence[Question],
    rankings: Sequence[Ranking],
    rewrites: Mapping[str, Mapping[str, Rewrite]],
    writer: RunWriter,
) -> None:
    """The texts behind the numbers: questions, rewrites, and the passages that stood at the top."""
    writer.write_questions(
        chosen.name,
        questions,
        lambda question: {
            "rewrites": {
                form: rewrites_of[question.id].text
                for form, rewrites_of in rewrites.items()
                if question.id in rewrites_of
            },
            "relevant": {level.name: list(level.qrels.get(question.id, ())) for level in chosen.levels},
        },
    )
    passages = {name: hit.passage for ranking in rankings for name, hit in ranking.passages.items()}
    writer.write_rows(
        (
            {"id": name, "document": passage.document_id, "title": passage.title, "text": passage.text[:SHOWN_CHARS]}
            for name, passage in passages.items()
        ),
        chosen.name,
        "passages.jsonl",
    )
