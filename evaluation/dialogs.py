"""Written dialogs measured: relevance of the questions, coherence, repetition, grounding, by `evaluation.metrics`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation import scoring
from evaluation.metrics import texture
from evaluation.metrics.relevance import QRelScore
from evaluation.metrics.significance import Estimate
from evaluation.metrics.texture import GroundedQuestion
from evaluation.reports.runs import RunWriter
from evaluation.sets import dialogs as rows
from evaluation.sets.base import Question
from evaluation.sets.rows import json_rows, present, text
from evaluation.sets.synthetic import WHERE
from index.encoders import Encoder

LEVEL = "dialog"


def load(folder: Path, split: str) -> tuple[list[Question], list[GroundedQuestion], dict[str, str]]:
    """Questions of `dialogs.<split>.jsonl` (else `dialogs.jsonl`), the same grounded, and all propositions by id."""
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", WHERE)
    corpus = present(folder / "propositions.jsonl", "A set of propositions", WHERE)
    propositions = {text(row, "_id", where): text(row, "text", where) for where, row in json_rows(corpus)}
    found = list(rows.questions(path))
    grounded = [
        GroundedQuestion(
            one.question.id,
            one.question.dialog,
            one.question.text,
            one.question.conversation,
            one.question.answer,
            one.relevant,
        )
        for one in found
    ]
    return [one.question for one in found], grounded, propositions


def measure(
    name: str,
    questions: Sequence[Question],
    grounded: Sequence[GroundedQuestion],
    propositions: dict[str, str],
    encoder: Encoder,
    scorer: QRelScore | None,
    writer: RunWriter,
    progress: Callable[[str, int, int], None],
) -> None:
    """Write every measure of the dialogs into the run."""
    by_id = {question.id: question for question in questions}
    texts = {one.id: [propositions[p] for p in one.propositions if p in propositions] for one in grounded}
    plain = {
        one.id: {
            "repeated question": float(texture.repeats(one)),
            "grounded": float(bool(texts[one.id])),
            "follow-up": float(bool(one.conversation)),
        }
        for one in grounded
    }
    answered = {
        one.id: {"answer coverage": texture.answer_coverage(one.answer, texts[one.id])}
        for one in grounded
        if one.answer and texts[one.id]
    }
    near = {key: {"coherence": value} for key, value in texture.coherence(grounded, encoder).items()}
    relevance: dict[str, dict[str, float]] = {}
    if scorer is not None:
        asked = [one for one in grounded if texts[one.id]]
        for done, one in enumerate(asked):
            progress(f"{name}: QRelScore", done, len(asked))
            # The stand-alone form, as in the paper: a fragment says nothing of its context by itself.
            found = scorer.score(by_id[one.id].rewrite or one.question, " ".join(texts[one.id]))
            relevance[one.id] = {
                "QRelScore": found.score,
                "QRelScore local": found.local,
                "QRelScore generation": found.generation,
            }
    for level, scores in ((LEVEL, plain), ("answer", answered), ("coherence", near), ("relevance", relevance)):
        if scores:
            writer.write_scores(name, "dialogs", level, scores)
            writer.metrics += scoring.metrics(name, level, "dialogs", scores, by_id)
    asked_texts = [one.question for one in grounded]
    dialogs = len({one.dialog for one in grounded})
    overall = {
        "distinct-1": texture.distinct(asked_texts, 1),
        "distinct-2": texture.distinct(asked_texts, 2),
        "propositions used": texture.used_share(grounded, propositions),
        "questions a dialog": len(grounded) / max(1, dialogs),
    }
    for measure_name, value in overall.items():
        writer.note(name, LEVEL, "dialogs", measure_name, Estimate.bare(value, len(grounded)))
    writer.write_questions(name, questions, lambda question: {"relevant": {"proposition": texts[question.id]}})
