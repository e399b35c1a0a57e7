"""`anaphora eval answers`: every question of a set answered as in a chat, and what the answers are worth."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.shared.eval_options import Data, Every, FailUnder, Out, bench, conclude, listed, runs_folder
from cli.shared.state import State, state_of

if TYPE_CHECKING:
    from evaluation.answering import AnsweredTurn, Listening
    from evaluation.retrieval import Bench
    from server.settings import Settings
    from server.turn.pipeline import TurnEngine


def answers(
    context: typer.Context,
    sets: Annotated[str, typer.Option(help="Data sets, by commas (`anaphora eval sets` lists them).")],
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    model: Annotated[str, typer.Option(help="The language model (llm.model).")] = "",
    answer_tokens: Annotated[int | None, typer.Option(min=16, help="Longest answer (llm.answer_tokens).")] = None,
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    encoder: Annotated[
        str, typer.Option(help="Encoder of BERTScore: a hub id, a folder, or a registered name; `none`.")
    ] = "",
    judge: Annotated[
        bool, typer.Option("--judge", help="Let the language model judge every answer, by the rubric.")
    ] = False,
    rubric: Annotated[Path | None, typer.Option(help="A rubric of your own for --judge.")] = None,
    every: Every = 1,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Answer every question of data sets as a chat does; text measures, citations, refusals and times.

    Finished turns are kept: after an interruption, or with --minutes, the same command goes on.
    """
    from evaluation.answering import answer_all
    from evaluation.judge import judge_all
    from evaluation.judge import rubric as read_rubric
    from evaluation.metrics.answers import measure, open_bertscore
    from evaluation.reports import tables
    from evaluation.reports.gates import parse_gate
    from evaluation.reports.runs import create_run
    from evaluation.retrieval import index_set
    from evaluation.sets import load_set
    from server.registry import resolve

    state = state_of(context)
    gates = [parse_gate(gate) for gate in fail_under or ()]
    rules = read_rubric(rubric)
    llm: dict[str, Any] = {"model": model} if model else {}
    if answer_tokens is not None:
        llm["answer_tokens"] = answer_tokens
    settings = state.settings({"llm": llm} if llm else {})
    chosen = [load_set(one, data).every(every) for one in listed(sets)]
    # Before hours of asking, not after them.
    bert = open_bertscore(resolve(encoder, settings.home) if encoder not in ("", "none") else encoder)
    writer = create_run(runs_folder(settings, out), "answers", name, resume=True)
    if bert is not None:
        writer.notes.append(f"BERTScore by {bert.name}, without rescaling.")
    if judge:
        writer.notes.append(f"judge: the model itself, rubric {rules.version}; its prompts stand in judge.jsonl.")
    limit = 60 * minutes if minutes > 0 else math.inf
    with bench(settings, state, settings.retrieval.rerank != "never") as measuring:
        with _engine(settings, state, measuring) as (engine, listening, label):
            collections = {one.name: index_set(one, measuring) for one in chosen}

            async def ask() -> dict[str, dict[str, AnsweredTurn]]:
                # One event loop for all sets: the model's connections belong to it.
                found = {}
                try:
                    for one in chosen:
                        found[one.name] = await answer_all(
                            engine,
                            one.questions,
                            writer.path(one.name, "turns.jsonl"),
                            collection=collections[one.name],
                            listening=listening,
                            seconds=limit - (time.monotonic() - writer.began),
                            progress=measuring.progress,
                        )
                finally:
                    client = getattr(listening and listening.model, "http_async_client", None)
                    if client is not None:
                        await client.aclose()
                return found

            turns = asyncio.run(ask())
            judged: dict[str, dict[str, dict[str, float]]] = {}
            if judge and listening is not None:
                judged = {
                    one.name: judge_all(
                        listening.model,
                        one.questions,
                        turns[one.name],
                        writer.path(one.name, "judge.jsonl"),
                        rules,
                        measuring.progress,
                    )
                    for one in chosen
                }
        missing = sum(len(one.questions) - len(turns[one.name]) for one in chosen)
        if missing:
            state.err.print(f"{missing} questions are left: the same command goes on with them.")
            return
        for one in chosen:
            measure(one, label, turns[one.name], writer, bert, judged.get(one.name))
    run = writer.finish(settings)
    state.out.print(tables.summary(run), soft_wrap=True)
    conclude(run, state, gates)


@contextmanager
def _engine(settings: Settings, state: State, measuring: Bench) -> Iterator[tuple[TurnEngine, Listening | None, str]]:
    """A turn engine as the service has it, over the collections of the evaluation; its model's name."""
    from contextlib import ExitStack
    from typing import cast

    from cli.shared.resources import fetch_models, open_rewriter
    from evaluation.answering import Listening
    from index.collection import Collection
    from server.engines import open_engine
    from server.turn.pipeline import TurnEngine, TurnModels

    fetch_models(settings, state, encoder=False, reranker=False, llm=True)
    opened: dict[str, Collection] = {}

    def collection(name: str) -> Collection:
        if name not in opened:
            opened[name] = Collection.open(measuring.root, name, measuring.plain)
        return opened[name]

    with ExitStack() as stack:
        rewriter = stack.enter_context(open_rewriter(settings, state))
        with state.err.status("starting the language model"):
            running = stack.enter_context(open_engine(settings))
        model = running.chat_model()
        listening = Listening(model) if model is not None else None
        models = TurnModels(rewriter, measuring.reranker, cast("Any", listening))
        engine = TurnEngine(collection=collection, models=models, settings=settings)
        try:
            yield engine, listening, running.name
        finally:
            for one in opened.values():
                one.close()
