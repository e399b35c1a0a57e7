"""`anaphora eval answers`: every question of a set answered as in a chat, and what the answers are worth."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.evaluating import bench, listed, measured_run
from cli.shared.options import Answerable, By, Data, Every, FailUnder, LanguageModel, Out, Sets, overriding
from cli.shared.state import state_of


def answers(
    context: typer.Context,
    sets: Sets,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: LanguageModel = "",
    answer_tokens: Annotated[int | None, typer.Option(min=16, help="Longest answer (llm.answer_tokens).")] = None,
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    judge: Annotated[
        bool, typer.Option("--judge", help="Let the language model judge every answer, by the rubric.")
    ] = False,
    rubric: Annotated[Path | None, typer.Option(help="A rubric of your own for --judge.")] = None,
    every: Every = 1,
    answerable: Answerable = 1.0,
    by: By = None,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.answering import Listening
    from evaluation.answers import evaluate_answers
    from evaluation.judge import rubric as read_rubric
    from evaluation.sets import load_sets
    from server.engines import open_engine

    state = state_of(context)
    rules = read_rubric(rubric)
    settings = state.settings(overriding(llm__model=model, llm__answer_tokens=answer_tokens))
    chosen = [one.drawn(answerable) for one in load_sets(listed(sets), data, every)]
    with measured_run(state, settings, "answers", name, out, fail_under, resume=True, by=by) as writer:
        if judge:
            writer.notes.append(f"judge: the model itself, rubric {rules.version}; its prompts stand in judge.jsonl.")
        with bench(settings, state, settings.retrieval.rerank != "never") as measuring:
            fetch_models(settings, state, encoder=False, reranker=False, llm=True)
            with ExitStack() as stack:
                rewriter = stack.enter_context(open_rewriter(settings, state))
                with state.err.status("starting the language model"):
                    engine = stack.enter_context(open_engine(settings))
                chat = engine.chat_model()
                missing = evaluate_answers(
                    chosen,
                    rewriter,
                    Listening(chat) if chat is not None else None,
                    engine.name,
                    measuring,
                    writer,
                    aclose=engine.aclose,
                    seconds=60 * minutes if minutes > 0 else math.inf,
                    rubric=rules if judge else None,
                )
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            raise typer.Exit
