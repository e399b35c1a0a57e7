"""`python -m papers.answerability`: fit and judge the decision to answer, ask back or refuse, from the search alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Name, Out, listed, runs_folder
from cli.shared.state import State, state_of
from papers.command_line import Data, bench, open_form, paper_app

if TYPE_CHECKING:
    from papers.answerability.collecting import Case
    from papers.answerability.fitting import Predict

Sets = Annotated[str, typer.Option(help="Sets whose questions are marked, by commas.")]
Split = Annotated[str, typer.Option(help="The part of sets that have several: train or dev.")]
Drawn = Annotated[float, typer.Option("--answerable", min=0.01, max=1, help="Share of the answerable questions drawn.")]


def measure(
    context: typer.Context,
    data: Data = None,
    sets: Sets = "product-*",
    split: Split = "dev",
    answerable: Drawn = 1.0,
    name: Name = "",
    out: Out = None,
) -> None:
    """Judge how well the packaged decision tells what the passages answer.

    Searches are kept in the run: after an interruption, the same --name goes on.
    """
    from papers.answerability.fitting import by_model
    from server.turn.decision import models

    _, _, show = _searched(state_of(context), data, sets, split, answerable, name, out)
    show(by_model(models().by_kind.__getitem__))


def fit(
    context: typer.Context,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the models (JSON).")],
    data: Data = None,
    sets: Sets = "product-*",
    split: Split = "train",
    answerable: Drawn = 1.0,
    name: Name = "",
    out: Out = None,
) -> None:
    """Fit the decision, and judge it by cross-validation over the sets.

    Searches are kept in the run: after an interruption, the same --name goes on.
    """
    from papers.answerability import fitting
    from server.turn.decision import DecisionModels

    cases, encoder, show = _searched(state_of(context), data, sets, split, answerable, name, out)
    models = {model: fitting.fit(own, model) for model, own in fitting.usable(cases).items()}
    to.write_text(fitting.as_json(DecisionModels(encoder, models), fitting.recipe(cases, split)), "utf-8")
    show(fitting.cross_validated)


def _searched(
    state: State, data: Path | None, sets: str, split: str, answerable: float, name: str, out: Path | None
) -> tuple[list[Case], str, Callable[[Predict], None]]:
    """The cases of the sets, the encoder's name, and what shows how well the chances of some models tell them apart."""
    from evaluation import report
    from evaluation.run_folder import create_run
    from papers.answerability import fitting
    from papers.answerability.collecting import collect_cases
    from papers.datasets import load_sets

    settings = state.settings()
    chosen = load_sets(listed(sets), data, split=split)
    writer = create_run(runs_folder(settings, out), "answerability", name, resume=bool(name))
    with bench(settings, state, rerank=True) as measuring, open_form("auto", settings, state) as rewriter:
        path = writer.path("cases.jsonl")
        cases = collect_cases(chosen, measuring, rewriter, path, answerable=answerable)

    def show(predict: Predict) -> None:
        told = report.table(fitting.TELLING, fitting.telling(cases, predict, writer))
        made = fitting.outcomes(cases, predict, settings.retrieval.profile, writer)
        state.out.print(told, "", report.table(fitting.OUTCOMES, made), sep="\n", soft_wrap=True)
        state.err.print(f"Wrote {writer.finish(settings).folder}.")

    return cases, measuring.encoder.name, show


app = paper_app(
    "Answer, ask back or refuse: fit the decision on marked questions, and judge it.", fit=fit, measure=measure
)

if __name__ == "__main__":
    app(prog_name="python -m papers.answerability")
