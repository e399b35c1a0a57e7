"""`anaphora eval compare` and `eval report`: what measured runs say, and how two differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.evaluating import listed, write_file
from cli.shared.options import Run
from cli.shared.state import state_of


def compare(
    context: typer.Context,
    before: Run,
    after: Annotated[Path, typer.Argument(help="Folder of the run to compare with it.")],
    systems: Annotated[
        str, typer.Option(help="Pairs BEFORE=AFTER by commas, where other systems than those of one name are meant.")
    ] = "",
    measures: Annotated[str, typer.Option(help="Measures by commas; the first picks winners and losers.")] = "",
    shown: Annotated[int, typer.Option(min=0, help="How many winners and losers to show.")] = 5,
    html: Annotated[Path | None, typer.Option(help="Also write a report to this file.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(help="Exit with code 10 if a measure changed by less than this: 0 allows no loss at all."),
    ] = None,
) -> None:
    """Show what differs between two runs, how surely, and which questions won or lost most."""
    from evaluation.errors import BelowThreshold, EvaluationError
    from evaluation.reports import page as reports
    from evaluation.reports import tables
    from evaluation.reports.compare import compare as compared
    from evaluation.reports.runs import read_run

    state = state_of(context)
    pairs = [pair.rsplit("=", 1) for pair in listed(systems)]
    if any(len(pair) != 2 for pair in pairs):
        raise EvaluationError("--systems takes pairs such as typed:rrf=auto:rrf, by commas.")
    found = compared(
        read_run(before),
        read_run(after),
        measures=listed(measures),
        systems={old: new for old, new in pairs} or None,
        shown=shown,
    )
    differing = tables.differences(found)
    state.out.print(tables.table(differing.head, differing.rows), soft_wrap=True)
    for title, changes in (("Winners", found.winners), ("Losers", found.losers)):
        for change in changes:
            state.out.print(
                f"\n{title[:-1]}: {change.set} {change.question} {change.before:.3f} -> {change.after:.3f}",
                *(f"  {line}" for line in change.asked),
                *(f"  before | {line}" for line in change.before_evidence),
                *(f"  after  | {line}" for line in change.after_evidence),
                sep="\n",
                soft_wrap=True,
            )
    if html is not None:
        write_file(html, reports.html(found.after, found))
        state.err.print(f"Wrote {html}.")
    if fail_under is not None:
        lost = [one for one in found.differences if one.difference < fail_under]
        if lost:
            raise BelowThreshold(
                "; ".join(f"{d.set}/{d.level}/{d.after_system}/{d.measure}: {d.difference:+.4f}" for d in lost)
                + f"; each must be at least {fail_under:+g}."
            )


def report(
    context: typer.Context,
    run: Run,
    out: Annotated[Path | None, typer.Option(help="File to write; by default `report.html` in the run.")] = None,
) -> None:
    """Write a run as one HTML page with plots, which opens without internet."""
    from evaluation.reports import page as reports
    from evaluation.reports.runs import read_run

    path = out or run / "report.html"
    write_file(path, reports.html(read_run(run)))
    state_of(context).err.print(f"Wrote {path}.")
