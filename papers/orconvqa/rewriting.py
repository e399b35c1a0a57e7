"""Rewriters against what people wrote, over any file of examples that `rewriter.examples` reads, or of any questions."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.shared.console import progress
from cli.shared.error_handler import ExitCode
from cli.shared.options import (
    Every,
    FailUnder,
    LanguageModel,
    Name,
    Out,
    Queries,
    Rewriting,
    listed,
    measured_run,
    overriding,
)
from cli.shared.resources import fetch_models, open_rewriter
from cli.shared.state import state_of
from evaluation.metrics import Estimate, token_f1
from evaluation.questions import MissingSet, Question, present, read_questions
from evaluation.run_folder import InputLine, Latency, RunWriter, finished_rows, make_rows, metrics_of, percentiles
from index.encoders import Encoder
from papers import measures
from papers.bench import rewrites_by_form
from papers.command_line import Data, bench, open_form
from papers.datasets import PRODUCT_SOURCE
from papers.measures import bare, estimate_of, note, tests_of
from rewriter.examples import RewriteExample, read_examples
from rewriter.load import describe
from rewriter.protocol import Rewrite
from server.rewriters import chosen_folder
from server.settings import PARALLEL, Settings
from server.turn.search import rewrite_within
from text.files import text_writer

LEVEL = "rewrite"
TESTED = ("ROUGE-L", "token F1", "similarity")

QRECC = "QReCC (CC BY-SA 3.0) is published at https://github.com/apple/ml-qrecc."
CAST = "CAsT 2019 (MIT) is published at https://github.com/daltonj/treccastweb."
IKAT = "iKAT 2023 (MIT) is published at https://www.trecikat.com."

FILES = {
    "qrecc": ("rewriting/qrecc.jsonl", QRECC),
    "cast2019": ("rewriting/cast2019.eval.dialogs.jsonl", CAST),
    "ikat2023": ("rewriting/ikat2023.train.dialogs.jsonl", IKAT),
    "mtrag": ("mtrag/dialogs.jsonl", PRODUCT_SOURCE),
    "synthetic": ("synthetic/dialogs.dev.jsonl", PRODUCT_SOURCE),
    "product": ("product_dialogs/dialogs.dev.jsonl", PRODUCT_SOURCE),
}
"""Files with rewrites below the folder of data sets, and where they come from."""


def load_examples(name: str, data: Path | None, every: int = 1) -> list[RewriteExample]:
    """The examples of a known set, or of the file of that name. Raises MissingSet or ExampleError."""
    if name in FILES:
        if data is None:
            raise MissingSet(f"The set {name} is looked for in a folder of data sets: give it with --data.")
        file, where = FILES[name]
        path = present(data / file, name, where)
    else:
        path = present(Path(name), "A file of examples", f"Known sets are {', '.join(FILES)}.")
    return list(read_examples(path))[::every]


def questions(examples: Sequence[RewriteExample]) -> list[Question]:
    """The examples as questions; the domain is where an example comes from."""
    return [
        Question(
            id=example.id,
            dialog=example.dialog,
            text=example.question,
            conversation=example.conversation,
            rewrite=example.rewrite,
            domain=example.source,
            answerability=example.answerability,
            kind=example.kind,
        )
        for example in examples
    ]


def measure(
    set_name: str,
    asked: Sequence[Question],
    made: Mapping[str, Mapping[str, Rewrite]],
    encoder: Encoder,
    writer: RunWriter,
) -> None:
    """Measure what every rewriter made of the questions, and write it into the run; tests are against the first."""
    by_id = {question.id: question for question in asked}
    dialogs = [question.dialog for question in asked]
    scores = {}
    for name, rewrites in made.items():
        texts = [rewrites[question.id].text for question in asked]
        scores[name] = _scores(asked, texts, encoder)
        writer.write_scores(set_name, name, LEVEL, scores[name])
        writer.metrics += metrics_of(set_name, LEVEL, name, scores[name], by_id)
        for measure_name, one in _overall(asked, [rewrites[question.id] for question in asked], dialogs).items():
            note(writer, set_name, LEVEL, name, measure_name, one)
        seconds = [rewrite.seconds for rewrite in rewrites.values()]
        writer.latencies.append(Latency(set_name, name, *percentiles(seconds), len(seconds)))
        writer.write_rows(
            (
                {"id": name_of, "text": rewrite.text, "decision": rewrite.decision, "seconds": rewrite.seconds}
                for name_of, rewrite in rewrites.items()
            ),
            set_name,
            name,
            "rewrites.jsonl",
        )
        writer.write_rows(
            (
                {"id": question.id, "shown": [f"{rewrite.decision}: {rewrite.text}", f"a person: {question.rewrite}"]}
                for question in asked
                for rewrite in (rewrites[question.id],)
            ),
            set_name,
            name,
            "evidence.jsonl",
        )
    for measure_name in TESTED:
        writer.tests += tests_of(set_name, LEVEL, measure_name, next(iter(scores)), scores, by_id)
    writer.write_questions(set_name, asked)


def _scores(asked: Sequence[Question], texts: Sequence[str], encoder: Encoder) -> dict[str, dict[str, float]]:
    references = [question.rewrite for question in asked]
    rouges = measures.rouge(texts, references)
    bleu = measures.sentence_bleu(texts, references)
    near = measures.similarities(texts, references, encoder.encode)
    return {
        question.id: {
            "ROUGE-L": rouges[place]["rougeL"],
            "sentence BLEU": bleu[place],
            "exact match": measures.exact_match(texts[place], references[place]),
            "token F1": token_f1(texts[place], references[place]),
            "similarity": near[place],
        }
        for place, question in enumerate(asked)
    }


def _overall(asked: Sequence[Question], rewrites: Sequence[Rewrite], dialogs: Sequence[str]) -> dict[str, Estimate]:
    """What is no mean over questions: corpus BLEU, the gate, calibration."""
    changed = [measures.is_change(rewrite, question.text) for rewrite, question in zip(rewrites, asked, strict=True)]
    needed = [bool(question.needs_rewrite) for question in asked]

    def gate(field: str) -> Estimate:
        def of(places: Sequence[int]) -> float:
            found = measures.gate([changed[place] for place in places], [needed[place] for place in places])
            return float(getattr(found, field))

        return estimate_of(of, dialogs)

    # Resampling whole corpora would take minutes: BLEU has no interval.
    bleu, _ = measures.corpus_bleu([r.text for r in rewrites], [question.rewrite for question in asked])
    found = {
        "BLEU": bare(bleu, len(asked)),
        "gate precision": gate("precision"),
        "gate recall": gate("recall"),
        "gate F1": gate("f1"),
        "changed": gate("changed"),
    }
    confident = [
        (rewrite.confidence, own == wanted)
        for rewrite, own, wanted in zip(rewrites, changed, needed, strict=True)
        if rewrite.confidence is not None
    ]
    if confident:
        error = measures.calibration_error([one for one, _ in confident], [right for _, right in confident])
        found["calibration error"] = bare(error, len(confident))
    return found


def rewriting(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Sets with rewrites by people, or JSONL files of examples, by commas.")],
    data: Data = None,
    rewriters: Annotated[
        str, typer.Option(help="Rewriters by commas: none, auto, prompted, a run's id or a folder; tests: first.")
    ] = "none,auto",
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Compare rewriters with what people wrote: text measures, the decision to rewrite, calibration, time."""
    state = state_of(context)
    settings = state.settings()
    chosen = {one: questions(load_examples(one, data, every)) for one in listed(sets)}
    with (
        measured_run(state, settings, "rewriting", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, rerank=False) as measuring,
    ):
        opened = partial(open_form, settings=settings, state=state)
        for set_name, asked in chosen.items():
            made = rewrites_by_form(listed(rewriters), asked, opened, measuring.progress)
            measure(Path(set_name).name, asked, made, measuring.encoder, writer)
        writer.notes.append(f"similarity is the cosine of embeddings by {measuring.plain.name}.")


def rewrite(
    context: typer.Context,
    queries: Queries,
    out: Annotated[Path, typer.Option(help="The JSON lines to write, in the order of the questions.")],
    rewriter: Rewriting = None,
    model: LanguageModel = "",
) -> None:
    """Make questions stand alone, as a chat turn would; what is finished is kept beside the output meanwhile."""
    state = state_of(context)
    settings = state.settings(overriding(rewriter__kind=rewriter, llm__model=model))
    lines = [InputLine(judged.question.id, judged.question) for judged in read_questions(queries)]
    label, kept = label_of(settings), out.with_name(f"{out.name}.partial")
    done = {name: row for name, row in finished_rows(kept, lines, label).items() if row["decision"] != "failed"}
    if done:
        state.err.print(f"{len(done)} of {len(lines)} questions were finished before.")
    if settings.rewriter.kind == "prompted":
        fetch_models(settings, state, encoder=False, reranker=False, llm=True)
    with (
        open_rewriter(settings, state) as used,
        progress(state.err, "rewriting", len(lines) - len(done)) as advance,
    ):

        async def make(line: InputLine[Question]) -> dict[str, Any]:
            seconds, question = settings.retrieval.profile.rewrite_seconds, line.asked
            made = await rewrite_within(seconds, used, question.conversation, question.text, blocking=True)
            return {"id": line.id, "question": question.text, "rewriter": label, **asdict(made)}

        rows = asyncio.run(make_rows(lines, done, kept, label, make, at_once=PARALLEL, advance=advance))
    with text_writer(out) as file:
        file.writelines(json.dumps(rows[line.id], ensure_ascii=False) + "\n" for line in lines)
    kept.unlink(missing_ok=True)
    decisions = [row["decision"] for row in rows.values()]
    rewritten = decisions.count("rewrite") + decisions.count("expand")
    failed = decisions.count("failed")
    state.err.print(f"Wrote {out}: {len(lines)} questions, {rewritten} rewritten, {failed} failed.")
    if failed == len(lines):
        raise typer.Exit(ExitCode.LLM)


def fingerprint(settings: Settings) -> str:
    """Names the trained rewriter of the settings by what is in its folder; raises RunError as opening it does."""
    folder = chosen_folder(settings)
    if folder is None:
        return "none"
    described = describe(folder)
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for path in sorted(folder.iterdir()):
        digest.update(f"{path.name}:{path.stat().st_size}".encode())
    return f"{described['family']}:{digest.hexdigest()[:12]}"


def label_of(settings: Settings) -> str:
    """Names the rewriter and everything in the settings that decides what it writes."""
    kind = settings.rewriter.kind
    if kind == "auto":
        return fingerprint(settings)
    return (
        kind
        if kind == "none"
        else ":".join((kind, settings.llm.model, str(settings.retrieval.profile.history_messages)))
    )
