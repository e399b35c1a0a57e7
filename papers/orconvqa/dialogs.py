"""Measure written dialogs without anybody who judges them: relevance of the questions, repetition, grounding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.console import stages
from cli.shared.options import Every, FailUnder, Name, Out, measured_run
from cli.shared.state import state_of
from evaluation.questions import JudgedQuestion, Question, dialog_questions, json_rows, present, text
from evaluation.run_folder import RunWriter, metrics_of
from papers.datasets import PRODUCT_SOURCE as WHERE
from papers.measures import bare, note
from papers.orconvqa.relevance import ENCODER, LANGUAGE_MODEL, QRelScore
from rewriter.examples import normalised
from server.registry import resolve
from text.words import stems, words

LEVEL = "dialog"
NEAR = 0.8
"""Share of common words from which a question counts as asked before."""


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
            "repeated question": float(repeats(one)),
            "grounded": float(bool(texts[one.id])),
            "follow-up": float(bool(one.conversation)),
        }
        for one in questions
    }
    answered = {
        one.id: {"answer coverage": answer_coverage(one.answer, texts[one.id])}
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
        "distinct-1": distinct(asked_texts, 1),
        "distinct-2": distinct(asked_texts, 2),
        "propositions used": used_share((one.relevant for one in found), propositions),
        "questions a dialog": len(questions) / max(1, dialogs),
    }
    for measure_name, value in overall.items():
        note(writer, name, LEVEL, "dialogs", measure_name, bare(value, len(questions)))
    writer.write_questions(name, questions, lambda question: {"relevant": {"proposition": texts[question.id]}})


def distinct(texts: Sequence[str], n: int) -> float:
    """Share of different word `n`-grams among all of them: 1 where nothing is ever said twice."""
    grams: Counter[tuple[str, ...]] = Counter()
    for one in texts:
        found = words(one)
        grams.update(tuple(found[i : i + n]) for i in range(len(found) - n + 1))
    return len(grams) / max(1, grams.total())


def repeats(question: Question) -> bool:
    """Whether the user asked (almost) the same before in the conversation."""
    own = set(normalised(question.text).split())
    for turn in question.conversation.messages:
        if turn.role == "user":
            other = set(normalised(turn.text).split())
            if own and other and len(own & other) >= NEAR * len(own | other):
                return True
    return False


def answer_coverage(answer: str, propositions: Sequence[str]) -> float:
    """Share of the answer's content words that its propositions hold; 1 of an answer without any."""
    wanted = set(stems(answer))
    held = set(stems(" ".join(propositions)))
    return len(wanted & held) / len(wanted) if wanted else 1.0


def used_share(grounded: Iterable[Sequence[str]], propositions: Mapping[str, str]) -> float:
    """Share of all propositions that some question is grounded in, given the ids of each question's."""
    used = {name for names in grounded for name in names}
    return len(used & propositions.keys()) / max(1, len(propositions))


def dialogs(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Folder with propositions.jsonl and dialogs.<split>.jsonl.")],
    split: Annotated[str, typer.Option(help="Which dialogs.")] = "dev",
    encoder: Annotated[
        str, typer.Option(help="QRelScore's encoder: hub id, folder or a registered name; `none` leaves QRelScore out.")
    ] = "",
    language_model: Annotated[str, typer.Option(help="QRelScore's causal model: hub id, folder, .gguf file.")] = "",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Measure written dialogs: QRelScore, repetition, grounding."""
    state = state_of(context)
    settings = state.settings()
    questions, propositions = load(folder, split)
    models = [resolve(encoder or ENCODER, settings.home), resolve(language_model or LANGUAGE_MODEL, settings.home)]
    scorer = None if encoder == "none" else QRelScore(*models)
    with (
        measured_run(state, settings, "dialogs", name, out, fail_under) as writer,
        stages(state.err) as progress,
    ):
        measure(folder.resolve().name, questions[::every], propositions, scorer, writer, progress)
        if scorer is not None:
            writer.notes.append(f"QRelScore by {scorer.name}.")
