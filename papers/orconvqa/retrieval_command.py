"""The product's `eval retrieval` with the paper's sets, its tables, and rows to train a cross-encoder on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.evaluate import retrieval
from cli.shared.options import Data, Every, Sets, bench, listed
from cli.shared.state import state_of
from papers.orconvqa.sets import add_sets

if TYPE_CHECKING:
    from rewriter.reranker_rows import RerankExample

add_sets()

__all__ = ["candidates", "retrieval", "tables"]


def tables(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs of `anaphora eval`.")],
    gap: Annotated[
        bool, typer.Option("--gap", help="All systems of one run side by side, and what gap each closes.")
    ] = False,
) -> None:
    """Print the paper's tables with our numbers beside its own, as Markdown."""
    from evaluation.run_folder import read_run
    from papers.orconvqa import tables as made

    read = [read_run(folder) for folder in runs]
    state_of(context).out.print("\n\n".join(map(made.gap, read)) if gap else made.text(read), end="", soft_wrap=True)


def candidates(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)],
    sets: Sets,
    data: Data = None,
    split: Annotated[str, typer.Option(help="Which dialogs, of sets that have parts.")] = "train",
    teacher: Annotated[
        bool, typer.Option("--teacher/--no-teacher", help="Note what the present cross-encoder says of each passage.")
    ] = True,
    every: Every = 1,
) -> None:
    """Write rows to train a cross-encoder on: every judged question, and passages that the search finds for it."""
    from contextlib import closing

    from evaluation.adaptation.measuring import candidates as candidates_of
    from evaluation.retrieval import index_set
    from evaluation.sets import load_sets, placed
    from rewriter.reranker_rows import write_rows
    from server.rewriters import open_rewriter
    from server.turn.search import TurnSearch
    from text.files import replacing

    state = state_of(context)
    settings = state.settings()
    chosen = load_sets(listed(sets), data, every, split)
    with bench(settings, state, teacher) as measuring:
        rewriter = open_rewriter(settings)

        def rows() -> Iterator[RerankExample]:
            for eval_set in chosen:
                with closing(measuring.open(index_set(eval_set, measuring))) as collection:
                    search = TurnSearch(collection=lambda _: collection, rewriter=rewriter, settings=settings)
                    judged = placed(eval_set, collection)
                    yield from candidates_of(judged, collection, search, measuring.reading, measuring.progress)

        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as draft:
            count = write_rows(draft, rows())
    state.err.print(f"Wrote {count:,} questions to {out}.")
