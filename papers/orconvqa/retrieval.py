"""Systems compared on data sets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Every, FailUnder, Name, Out, listed, measured_run, overriding
from cli.shared.state import state_of
from papers.command_line import Data, Sets, bench, open_form
from papers.orconvqa.sets import add_sets

add_sets()


def retrieval(
    context: typer.Context,
    sets: Sets = "",
    data: Data = None,
    questions: Annotated[
        Path | None, typer.Option(help="Questions of your own about an indexed collection, one JSON object a line.")
    ] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection --questions are about.")] = "",
    systems: Annotated[str, typer.Option(help="What to compare, by commas: FORM:RETRIEVER[+rerank].")] = "",
    baseline: Annotated[str, typer.Option(help="The system the others are tested against.")] = "typed:rrf",
    every: Every = 1,
    timed: Annotated[int, typer.Option(min=0, help="Questions to take latencies on; 0 takes none.")] = 30,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Search data sets, or questions of your own, with several settings; MAP, recall, nDCG and MRR of each.

    Embeddings, scores of the cross-encoder and rewrites of a language model are kept: a second run is quick.
    """
    from evaluation.questions import EvaluationError
    from papers.bench import evaluate_sets
    from papers.datasets import load_sets, questions_of
    from papers.systems import DEFAULT_SYSTEMS, parse

    state = state_of(context)
    parsed = list(dict.fromkeys(map(parse, listed(systems) or DEFAULT_SYSTEMS)))
    against = parse(baseline).name
    settings = state.settings(overriding(collection=collection))
    chosen = load_sets(listed(sets), data, every)
    if questions is not None:
        chosen.append(questions_of(questions).every(every))
    if not chosen:
        raise EvaluationError("Say what to measure: --sets with --data, or --questions with --collection.")
    with (
        measured_run(state, settings, "retrieval", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, any(system.rerank != "never" for system in parsed)) as measuring,
    ):
        opened = partial(open_form, settings=settings, state=state)
        evaluate_sets(chosen, parsed, opened, measuring, writer, baseline=against, timed=timed)
