"""Written dialogs measured: relevance of the questions, repetition, grounding, by `evaluation.metrics`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.questions import JudgedQuestion, dialog_questions, json_rows, present, text
from evaluation.run_folder import RunWriter, metrics_of
from papers.datasets import PRODUCT_SOURCE as WHERE
from papers.measures import bare, note
from papers.orconvqa import texture
from papers.orconvqa.relevance import QRelScore

LEVEL = "dialog"


def load(folder: Path, split: str) -> tuple[list[JudgedQuestion], dict[str, str]]:
    """Questions of `dialogs.<split>.jsonl` (else `dialogs.jsonl`), and all propositions by id."""
    path = folder / f"dialogs.{split}.jsonl"
    if not path.exists():
        path = present(folder / "dialogs.jsonl", f"A set of dialogs ({path.name}, or dialogs.jsonl)", WHERE)
    corpus = present(folder / "propositions.jsonl", "A set of propositions", WHERE)
    return list(dialog_questions(path)), {
        text(row, "_id", where): text(row, "text", where) for where, row in json_rows(corpus)
    }


def measure(
    name: str,
    found: Sequence[JudgedQuestion],
    propositions: dict[str, str],
    scorer: QRelScore | None,
    writer: RunWriter,
    progress: Callable[[str, int, int], None],
) -> None:
    """Write every measure of the dialogs into the run."""
    questions = [one.question for one in found]
    by_id = {question.id: question for question in questions}
    texts = {one.question.id: [propositions[p] for p in one.relevant if p in propositions] for one in found}
    plain = {
        one.id: {
            "repeated question": float(texture.repeats(one)),
            "grounded": float(bool(texts[one.id])),
            "follow-up": float(bool(one.conversation)),
        }
        for one in questions
    }
    answered = {
        one.id: {"answer coverage": texture.answer_coverage(one.answer, texts[one.id])}
        for one in questions
        if one.answer and texts[one.id]
    }
    relevance: dict[str, dict[str, float]] = {}
    if scorer is not None:
        asked = [one for one in questions if texts[one.id]]
        for done, one in enumerate(asked):
            progress(f"{name}: QRelScore", done, len(asked))
            # The stand-alone form, as in the paper: a fragment says nothing of its context by itself.
            near = scorer.score(one.rewrite or one.text, " ".join(texts[one.id]))
            relevance[one.id] = {
                "QRelScore": near.score,
                "QRelScore local": near.local,
                "QRelScore generation": near.generation,
            }
    for level, scores in ((LEVEL, plain), ("answer", answered), ("relevance", relevance)):
        if scores:
            writer.write_scores(name, "dialogs", level, scores)
            writer.metrics += metrics_of(name, level, "dialogs", scores, by_id)
    asked_texts = [one.text for one in questions]
    dialogs = len({one.dialog for one in questions})
    overall = {
        "distinct-1": texture.distinct(asked_texts, 1),
        "distinct-2": texture.distinct(asked_texts, 2),
        "propositions used": texture.used_share((one.relevant for one in found), propositions),
        "questions a dialog": len(questions) / max(1, dialogs),
    }
    for measure_name, value in overall.items():
        note(writer, name, LEVEL, "dialogs", measure_name, bare(value, len(questions)))
    writer.write_questions(name, questions, lambda question: {"relevant": {"proposition": texts[question.id]}})
