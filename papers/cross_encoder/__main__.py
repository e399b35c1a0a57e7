"""`python -m papers.cross_encoder`: rows for a cross-encoder that reads conversations, and the model trained on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.options import Every, listed
from cli.shared.state import state_of
from papers.command_line import Data, Sets, bench, paper_app, train_command
from papers.orconvqa.sets import add_sets

if TYPE_CHECKING:
    from papers.cross_encoder.rows import RerankExample

RECIPE = Path(__file__).parent / "recipes" / "reranker.toml"

add_sets()


def rows(
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

    from evaluation.sets import placed
    from papers.bench import index_set
    from papers.cross_encoder.candidates import candidates as candidates_of
    from papers.cross_encoder.rows import write_rows
    from papers.datasets import load_sets
    from server.rewriters import open_rewriter
    from server.turn.search import TurnSearch
    from text.files import replacing

    state = state_of(context)
    settings = state.settings()
    chosen = load_sets(listed(sets), data, every, split)
    with bench(settings, state, teacher) as measuring:
        rewriter = open_rewriter(settings)

        def examples() -> Iterator[RerankExample]:
            for eval_set in chosen:
                with closing(measuring.open(index_set(eval_set, measuring))) as collection:
                    search = TurnSearch(collection=lambda _: collection, rewriter=rewriter, settings=settings)
                    judged = placed(eval_set, collection)
                    of_set = candidates_of(judged, collection, search, measuring.reading)
                    for done, row in enumerate(of_set):
                        measuring.progress(f"{judged.name}: searching", done, len(judged.judged))
                        yield row
                    measuring.progress(f"{judged.name}: searching", len(judged.judged), len(judged.judged))

        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as draft:
            count = write_rows(draft, examples())
    state.err.print(f"Wrote {count:,} questions to {out}.")


train = train_command(
    "papers.cross_encoder.family:RERANKERS",
    RECIPE,
    "reranker",
    "Train a cross-encoder: `retrieval.reranker` may name its folder, `python -m papers.packing` packs it.",
)
app = paper_app(
    "A cross-encoder that reads conversations: rows, and the model trained on them.", rows=rows, train=train
)

if __name__ == "__main__":
    app(prog_name="python -m papers.cross_encoder")
