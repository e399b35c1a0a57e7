"""Answer every question of data sets as a chat does, and measure the answers."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Annotated

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Out, listed, measured_run, overriding
from cli.shared.state import state_of
from papers.command_line import Data, Sets, bench


def answers(
    context: typer.Context,
    sets: Sets,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: LanguageModel = "",
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    judge: Annotated[bool, typer.Option("--judge", help="Let the language model judge every answer.")] = False,
    every: Every = 1,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.answers import rubric
    from papers.datasets import load_sets
    from papers.orconvqa.answers import evaluate_answers
    from server.engines import open_engine
    from server.rewriters import open_pairs
    from text.modules import need_extra

    need_extra("papers", "Measuring answers", "rouge_score", "sacrebleu")

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    chosen = load_sets(listed(sets), data, every)
    with measured_run(state, settings, "answers", name, out, fail_under, resume=True) as writer, ExitStack() as stack:
        if judge:
            version = rubric().version
            writer.notes.append(f"judge: the model itself, rubric {version}; its prompts stand in judge.jsonl.")
        measuring = stack.enter_context(bench(settings, state, settings.retrieval.rerank != "never"))
        fetch_models(settings, state, encoder=False, reranker=False, llm=True)
        rewriter = stack.enter_context(open_rewriter(settings, state))
        with state.err.status("starting the language model"):
            engine = stack.enter_context(open_engine(settings))
        missing = evaluate_answers(
            chosen,
            rewriter,
            engine.chat_model(),
            engine.name,
            measuring,
            writer,
            aclose=engine.aclose,
            seconds=60 * minutes if minutes > 0 else math.inf,
            judged=judge,
            pairs=open_pairs(settings),
        )
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            raise typer.Exit
