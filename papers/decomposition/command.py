"""`python -m papers.decomposition measure`: ways of choosing passages and answering, measured against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, FailUnder, LanguageModel, Out, listed, measured_run, overriding
from cli.shared.state import InputError, state_of
from papers.command_line import Data, bench, data_folder, deadline, with_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from papers.decomposition.measuring import RecipeAnswer


def recipes(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="Name of the run's folder; the same name goes on with it.")],
    data: Data = None,
    recipes: Annotated[
        str, typer.Option(help="Recipes by commas, such as `perplexity` or `perplexity+prune`; `plain` reads the pool.")
    ] = "baseline,perplexity",
    model: LanguageModel = "",
    task: Annotated[str, typer.Option(help="What is asked of the trials: `adherence` or `placebo`.")] = "adherence",
    split: Annotated[str, typer.Option(help="`iterate`, `validation`, or `test`, which is read once.")] = "iterate",
    pool: Annotated[int, typer.Option(min=2, help="Passages a question's pool has.")] = 40,
    first: Annotated[int, typer.Option(min=1, help="Passages of it, by the cross-encoder, that recipes look at.")] = 20,
    beyond: Annotated[float, typer.Option(min=0, help="Perplexity from which passages are taken.")] = 0.0,
    judge: Annotated[bool, typer.Option("--judge", help="Let the language model judge every answer.")] = False,
    final: Annotated[bool, typer.Option("--final", help="Read the test split, and choose nothing after it.")] = False,
    minutes: Annotated[float, typer.Option(help="Stop asking after this; 0 asks everything.")] = 0,
    every: Every = 1,
    out: Out = None,
    fail_under: FailUnder = None,
) -> None:
    """Questions about trials with known answers: passages chosen, answers, and Fisher's exact test against `baseline`.

    What a model said is kept: after an interruption the same command goes on. With --minutes what was reached counts.
    """
    from index.rerank import CrossEncoderReranker
    from papers.cross_encoder.candidates import pair_scores
    from papers.decomposition.base import PACKAGE, RecipeTools
    from papers.decomposition.measuring import measure, run_recipes
    from papers.decomposition.registry import AT_ONCE, checked_recipe
    from papers.decomposition.trials import SPLITS, TASKS, load_trials
    from papers.decontextualization.measuring import RememberedAsker

    data = data_folder(data)
    if task not in TASKS or split not in SPLITS:
        raise InputError(f"--task is one of {', '.join(TASKS)}, and --split one of {', '.join(SPLITS)}.")
    if (split == "test") != final:
        raise InputError("The test split is read once, when nothing is chosen any more: --split test with --final.")
    state = state_of(context)
    try:
        wanted = [checked_recipe(one) for one in listed(recipes)]
    except ValueError as error:
        raise InputError(str(error)) from None
    settings = state.settings(overriding(llm__model=model))
    if settings.llm.model.casefold() == "none":
        raise InputError("Recipes need a language model: --model.")
    trials, golds = load_trials(data, task, split, pool)
    trials = trials[::every]
    with (
        measured_run(state, settings, "recipes", name, out, fail_under, resume=True) as writer,
        bench(settings, state, rerank=True) as measuring,
    ):
        if not isinstance(measuring.reading, CrossEncoderReranker):
            raise InputError("Recipes are measured over a cross-encoder's ranking: set retrieval.reranker to one.")
        ranked = []
        for trial in trials:
            scores = pair_scores(measuring.reading, trial.question.text, [one.text for one in trial.pool])
            order = sorted(range(len(scores)), key=lambda n: -scores[n])
            ranked.append((trial, [trial.pool[n] for n in order]))
        room = settings.llm.context_tokens - settings.llm.answer_tokens - 400
        until, reading = deadline(minutes), measuring.reading

        async def run(chat: BaseChatModel | None) -> list[dict[str, RecipeAnswer]]:
            asker = RememberedAsker(chat, writer.path("asked.jsonl"), package=PACKAGE)
            tools = RecipeTools(asker, golds, budget=room, beyond=beyond, at_once=AT_ONCE if settings.llm.remote else 1)
            found = await run_recipes(ranked, wanted, tools, first, writer, until, measuring.progress)
            measure(ranked, found, first, writer, chat if judge else None)
            return found

        found = with_model(settings, state, run)
        writer.notes.append(
            f"{len(found)} of {len(ranked)} questions of {task}/{split}, the first {first} of pools of {pool}; answers "
            f"by {settings.llm.model}, the first ranking by {reading.name}."
        )
