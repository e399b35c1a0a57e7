"""Rankings of a set's questions: what they are worth by every measure, and what a run keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evaluation import scoring
from evaluation.metrics.ranking import FULL_MEASURES, by_parent, per_question, run_lines
from evaluation.reports.runs import RunWriter
from evaluation.sets.base import EvalSet, JudgedLevel, Question
from evaluation.systems import System
from index.query import Hit
from rewriter.protocol import Rewrite

SHOWN_CHARS = 400
TESTED = ("AP", "R@5", "R@20", "nDCG@5")


@dataclass(slots=True)
class Ranking:
    """What one system found: ids by question, best first, and the passages behind the first of them."""

    system: System
    found: dict[str, list[str]] = field(default_factory=dict)
    passages: dict[str, Hit] = field(default_factory=dict)
    document_of: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def at(self, level: JudgedLevel) -> dict[str, list[str]]:
        """The run over what `level` judges."""
        if level.by == "unit":
            return self.found
        return by_parent(self.found, self.document_of if level.by == "document" else level.parents)


def measure(
    chosen: EvalSet, questions: Sequence[Question], rankings: Sequence[Ranking], writer: RunWriter, baseline: str
) -> None:
    """Score rankings at every level; qrels, runs, scores and tests against `baseline` go to the writer."""
    by_id = {question.id: question for question in questions}
    for level in chosen.levels:
        qrels = {name: level.qrels[name] for name in by_id if level.qrels.get(name)}
        with writer.path(chosen.name, f"{level.name}.qrels.tsv").open("w", encoding="utf-8") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{q}\t{item}\t{value}\n" for q, judged in qrels.items() for item, value in judged.items())
        scores = {}
        for ranking in rankings:
            name, run = ranking.system.name, ranking.at(level)
            with writer.path(chosen.name, name, f"{level.name}.trec").open("w", encoding="utf-8") as file:
                for question in questions:
                    ranked = ((item, 1 / rank) for rank, item in enumerate(run[question.id], 1))
                    file.writelines(run_lines(question.id, ranked, "anaphora"))
            scores[name] = per_question(run, qrels, FULL_MEASURES)
            writer.write_scores(chosen.name, name, level.name, scores[name])
            writer.metrics += scoring.metrics(chosen.name, level.name, name, scores[name], by_id)
        against = baseline if baseline in scores else next(iter(scores), "")
        for tested in TESTED:
            writer.tests += scoring.tests(chosen.name, level.name, tested, against, scores, by_id)


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
            "rewrites": {form: made[question.id].text for form, made in rewrites.items() if question.id in made},
            "relevant": {level.name: list(level.qrels.get(question.id, ())) for level in chosen.levels},
        },
    )
    passages = {name: hit for ranking in rankings for name, hit in ranking.passages.items()}
    writer.write_rows(
        (
            {
                "id": name,
                "document": hit.passage.document_id,
                "title": hit.passage.title,
                "text": hit.passage.text[:SHOWN_CHARS],
            }
            for name, hit in passages.items()
        ),
        chosen.name,
        "passages.jsonl",
    )
