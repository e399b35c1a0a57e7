"""`python -m papers.sentence_selection`: collect questions with their sentences, and fit the head that is packaged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cli.shared.options import listed
from cli.shared.state import state_of
from papers.command_line import Data, bench, data_folder, open_form, paper_app

PRODUCTS = "uv,mkdocs-material,fastapi,chroma,jitsi,syncthing,meltano-handbook,kind,actual-budget"
Work = Annotated[Path, typer.Argument(help="Folder of the collected cases.")]


def collect(
    context: typer.Context,
    work: Work,
    data: Data = None,
    products: Annotated[str, typer.Option(help="Products of `product_dialogs`, by commas.")] = PRODUCTS,
    split: Annotated[str, typer.Option(help="The part of the dialogs.")] = "train",
) -> None:
    """Search for every marked question as a chat does, and keep what the head reads; goes on where it was stopped."""
    from papers.datasets import load_set
    from papers.sentence_selection import cases

    state, folder = state_of(context), data_folder(data)
    settings = state.settings()
    with bench(settings, state, rerank=True) as measuring, open_form("auto", settings, state) as rewriter:
        for product in listed(products):
            chosen = load_set(f"product-{product}", folder, split)
            cases.collect(chosen, measuring, rewriter, work / f"{product}.{split}", product)


def fit(
    context: typer.Context,
    work: Work,
    out: Annotated[Path, typer.Argument(help="The file to write, such as server/turn/sentence_head.npz.")],
    folds: Annotated[int, typer.Option(min=2, help="Parts of the domains, for cross-validation.")] = 3,
    unanswerable: Annotated[
        float, typer.Option(min=0, max=1, help="Share of unanswerable questions that may be quoted for as sure.")
    ] = 0.1,
    refused: Annotated[
        float, typer.Option(min=0, max=1, help="Share of answerable questions that may be refused.")
    ] = 0.05,
    lost: Annotated[float, typer.Option(min=0, max=1, help="Share of marked quotes that may count as far.")] = 0.0015,
) -> None:
    """Fit the head on all cases, cross-validate it and the decision over domains, and choose the thresholds by that."""
    from evaluation import report
    from papers.sentence_selection import fitting
    from papers.sentence_selection.cases import read_all

    state = state_of(context)
    cases, recipe = read_all(work), fitting.HeadRecipe()
    found = fitting.cross_validated(cases, recipe, folds)
    least = fitting.threshold(found, unanswerable)
    thresholds = sorted({least, *np.arange(0.7, 0.95, 0.02).round(2).tolist()})
    state.out.print(report.table(fitting.HEAD, fitting.table(found, thresholds)), soft_wrap=True)
    state.out.print(f"SURE = {least:.2f}  (server/turn/evidence.py)")
    state.out.print(f"FAR = {fitting.far(found, lost):g}  (server/turn/decision.py)")
    state.out.print(f"answerable = {fitting.refusing(found, refused):g}  (server/settings/profile.toml)")
    with out.open("wb") as file:
        np.savez_compressed(file, **fitting.fitted(cases, recipe).weights())  # type: ignore[arg-type]
    state.err.print(f"Wrote {out}: {out.stat().st_size:,} bytes, fitted on {len(cases)} questions.")


def measure(
    context: typer.Context,
    work: Work,
    least: Annotated[list[float], typer.Option("--sure", help="Chances from which quotes are sure.")],
) -> None:
    """Print what the packaged head quotes for collected cases that it was not fitted on."""
    from evaluation import report
    from papers.sentence_selection import fitting
    from papers.sentence_selection.cases import read_all

    found = fitting.packaged(read_all(work))
    for domain in sorted({one.case.domain for one in found}):
        rows = fitting.table([one for one in found if one.case.domain == domain], least)
        state_of(context).out.print(domain, report.table(fitting.HEAD, rows), sep="\n", soft_wrap=True)


app = paper_app(
    "Which sentence answers: cases, the head fitted on them, its figures.", collect=collect, fit=fit, measure=measure
)

if __name__ == "__main__":
    app(prog_name="python -m papers.sentence_selection")
