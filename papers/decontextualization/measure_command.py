"""`anaphora eval standalone`: what quotes made readable are worth, with each step replaced by gold."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Name, Out, listed, measured_run, overriding
from cli.shared.state import state_of
from papers.command_line import Data, bench, data_folder, deadline, with_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from papers.decontextualization.measuring import StandaloneMeasured


def standalone(
    context: typer.Context,
    data: Data = None,
    model: LanguageModel = "none",
    arms: Annotated[
        str, typer.Option(help="Which arms, by commas; `*` stands for anything. By default all that can be.")
    ] = "",
    minutes: Annotated[float, typer.Option(help="Ask the model no more after this; 0 asks everything.")] = 0,
    every: Every = 1,
    name: Name = "",
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Make the snippets of qa_decontext readable: content-SARI and SARI-add beside copy, title and gold answers.

    With --model none the arms that need no language model. What a model said is kept: the same --name goes on.
    """
    from evaluation.questions import EvaluationError
    from papers.decontextualization.measuring import RememberedAsker, make_all, measure, measure_retrieval
    from papers.decontextualization.measuring import arms as every_arm
    from papers.decontextualization.snippets import load_snippets
    from papers.within import Within

    state = state_of(context)
    settings = state.settings(overriding(llm__model=model))
    asked = model.casefold() != "none"
    chosen = [
        arm
        for arm in every_arm()
        if (asked or not arm.prompted) and (not arms or any(fnmatch(arm.name, one) for one in listed(arms)))
    ]
    if not chosen:
        known = "; ".join(arm.name for arm in every_arm())
        raise EvaluationError(f"No arm is called {arms!r}, or it needs a --model. There are: {known}.")
    snippets, passages = load_snippets(data_folder(data), every)
    with (
        measured_run(state, settings, "standalone", name, out, fail_under, resume=bool(name)) as writer,
        bench(settings, state, rerank=False) as measuring,
    ):
        within = Within([one.text for one in passages], measuring.encoder)
        until = deadline(minutes)

        async def made(chat_model: BaseChatModel | None) -> StandaloneMeasured:
            asker = RememberedAsker(chat_model, writer.path("asked.jsonl")) if chat_model else None
            return await make_all(snippets, chosen, within, asker, until=until, progress=measuring.progress)

        found = with_model(settings, state, made)
        measure(snippets, found, writer)
        measure_retrieval(snippets, passages, within, writer)
        writer.notes.append(f"The model is {settings.llm.model}; {len(passages)} passages are searched (pooled).")
        if found.problem:
            writer.notes.append(f"The model was asked no more: {found.problem}")
        reached = {arm.name: len(found.made[arm.name]) for arm in chosen if arm.prompted}
        if reached and min(reached.values()) < len(snippets):
            writer.notes.append(f"In the time given the model was asked about {min(reached.values())} snippets.")
