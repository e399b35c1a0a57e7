"""Sets answered as a chat answers, judged where that is asked for, and measured; engine and rewriter are handed in."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

from evaluation.answer_measures import measure
from evaluation.answering import AnsweredTurn, Listening, answer_all
from evaluation.judge import judge_all
from evaluation.retrieval import Bench, index_set
from evaluation.sets.quotes import placed
from index.collection import Collection
from server.turn.models import TurnModels, answer_style
from server.turn.run import TurnEngine

if TYPE_CHECKING:
    from evaluation.reports.run_folder import RunWriter
    from evaluation.sets.base import EvalSet
    from rewriter.prompts import Prompt
    from rewriter.protocol import Rewriter


def evaluate_answers(
    sets: Sequence[EvalSet],
    rewriter: Rewriter,
    listening: Listening | None,
    label: str,
    bench: Bench,
    writer: RunWriter,
    *,
    aclose: Callable[[], Awaitable[None]],
    seconds: float = math.inf,
    rubric: Prompt | None = None,
) -> int:
    """Answer every question that is open, and measure all under the system `label`; how many questions are left.

    Nothing is measured before every question is answered. Nothing new is asked once `seconds` of the run are over.
    With a `rubric` the language model judges its own answers. `aclose` closes the model's connections, on their event
    loop.
    """
    names = {eval_set.name: index_set(eval_set, bench) for eval_set in sets}
    with _engine(rewriter, listening, bench) as engine:
        turns = asyncio.run(_ask(engine, sets, names, listening, bench, writer, aclose, seconds))
    judged: dict[str, Mapping[str, Mapping[str, float]]] = {}
    if rubric is not None and listening is not None:
        for eval_set in sets:
            journal = writer.path(eval_set.name, "judge.jsonl")
            judged[eval_set.name] = judge_all(
                listening.model, eval_set.questions, turns[eval_set.name], journal, rubric, bench.progress
            )
    missing = sum(len(eval_set.questions) - len(turns[eval_set.name]) for eval_set in sets)
    for eval_set in sets if not missing else ():
        with closing(bench.open(names[eval_set.name], bench.plain)) as collection:
            eval_set = placed(eval_set, collection)
        measure(eval_set, label, turns[eval_set.name], writer, judged.get(eval_set.name))
    return missing


async def _ask(
    engine: TurnEngine,
    sets: Sequence[EvalSet],
    names: Mapping[str, str],
    listening: Listening | None,
    bench: Bench,
    writer: RunWriter,
    aclose: Callable[[], Awaitable[None]],
    seconds: float,
) -> dict[str, dict[str, AnsweredTurn]]:
    """The turns of all sets, on one event loop."""
    try:
        return {
            eval_set.name: await answer_all(
                engine,
                eval_set.questions,
                writer.path(eval_set.name, "turns.jsonl"),
                collection=names[eval_set.name],
                listening=listening,
                content=bench.settings.trace.content,
                seconds=seconds - (time.monotonic() - writer.began),
                progress=bench.progress,
            )
            for eval_set in sets
        }
    finally:
        await aclose()


@contextmanager
def _engine(rewriter: Rewriter, listening: Listening | None, bench: Bench) -> Iterator[TurnEngine]:
    """A turn engine as the service has it, over the collections of the evaluation."""
    opened: dict[str, Collection] = {}

    def collection(name: str) -> Collection:
        if name not in opened:
            opened[name] = bench.open(name, bench.plain)
        return opened[name]

    models = TurnModels(rewriter, bench.reranker, cast("Any", listening), style=answer_style(bench.settings.llm))
    try:
        yield TurnEngine(collection=collection, models=models, settings=bench.settings)
    finally:
        for engine in opened.values():
            engine.close()
