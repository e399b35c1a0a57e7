"""`anaphora eval pdf`: what of the words of PDFs is read, by layout and without."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.shared.options import Every
from cli.shared.state import InputError, state_of
from papers.command_line import Data


def pdf(
    context: typer.Context,
    data: Data = None,
    every: Every = 1,
    scans: Annotated[
        bool, typer.Option("--scans", help="Also from pictures of the pages, by Tesseract or rapidocr: seconds a page.")
    ] = False,
) -> None:
    """Read the PDFs of the set scisumm, and compare their words with those of the papers' texts."""
    from cli.shared.console import progress
    from evaluation.report import table
    from papers.document_reading import extraction

    if data is None:
        raise InputError("Say where the set scisumm lies: --data.")
    state = state_of(context)
    count = len(list(extraction.documents(data))[::every])
    with progress(state.err, "reading", count) as advance:
        found = extraction.measure(data, state.settings().index.max_file_mb, every, advance, scans=scans)
    rows = [
        (
            arm,
            *(f"{100 * value:.1f}" for value in found.means(arm)),
            f"{found.pages / max(1e-9, found.seconds[arm]):.1f}",
        )
        for arm in found.overlaps
    ]
    state.out.print(table(("arm", "precision", "recall", "F1", "pages a second"), rows), soft_wrap=True)
    for baseline in ("whole", "cut"):
        gain = found.gain("layout", baseline)
        state.out.print(
            f"layout against {baseline}: F1 {100 * gain.mean:+.2f} ({100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
        )
    for problem in found.failed:
        state.err.print(problem, soft_wrap=True)
