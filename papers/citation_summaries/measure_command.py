"""`anaphora eval why`: what the sentences shown under a citation are worth, with every setup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Name, Out, measured_run, overriding
from cli.shared.state import state_of
from papers.command_line import Data, bench, data_folder, deadline, with_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def why(
    context: typer.Context,
    data: Data = None,
    model: LanguageModel = "none",
    judge: Annotated[bool, typer.Option("--judge", help="Have the model grade what it wrote, and the lead.")] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Also with a cross-encoder, which takes minutes.")] = False,
    minutes: Annotated[float, typer.Option(help="Ask the model no more after this; 0 asks everything.")] = 0,
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Find in cited papers (scisumm) the sentences that are meant: nDCG@5, R@5, R@10, ROUGE; checks and thresholds.

    With a --model also what it writes of them.
    """
    from evaluation.questions import EvaluationError
    from papers.asking import QuoteAsker
    from papers.citation_summaries.citances import load_citances
    from papers.citation_summaries.measuring import (
        WhyBench,
        measure_checks,
        measure_contexts,
        measure_setups,
        measure_written,
    )
    from papers.decontextualization.snippets import SET, load_snippets

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    if judge and model.casefold() == "none":
        raise EvaluationError("--judge needs a --model, which is named in the run.")
    data = data_folder(data)
    cases, sources = load_citances(data, every)
    with (
        measured_run(state, settings, "why", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, rerank=rerank) as measuring,
    ):
        measured = WhyBench.of(cases, sources, measuring.encoder, writer, measuring.progress)
        reading = getattr(measuring.reading, "scorer", None) if rerank else None
        measure_setups(measured, reading)
        measure_checks(measured)
        if (data / SET).is_dir():
            measure_contexts(*load_snippets(data, every), measuring.encoder, writer)
        until = deadline(minutes)

        async def written(chat_model: BaseChatModel | None) -> None:
            if chat_model is not None:
                asker = QuoteAsker(chat_model, settings.llm.timeout_seconds)
                await measure_written(measured, asker, chat_model if judge else None, until)
                judged = f"; it graded too ({settings.llm.model})" if judge else ""
                writer.notes.append(f"The model that wrote is {settings.llm.model}{judged}.")

        with_model(settings, state, written)
        writer.notes.append("The set has no text beside a citance: neighbours find what it finds.")
