"""`anaphora eval candidates`: rows to train a cross-encoder on, from judged questions and what the search finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.evaluating import bench, listed
from cli.shared.options import Data, Every, Sets, overriding
from cli.shared.state import state_of

if TYPE_CHECKING:
    from rewriter.reranking.rows import RerankExample


def candidates(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)],
    sets: Sets = "",
    data: Data = None,
    split: Annotated[str, typer.Option(help="Which dialogs, of sets that have parts.")] = "train",
    teacher: Annotated[
        bool, typer.Option("--teacher/--no-teacher", help="Note what the present cross-encoder says of each passage.")
    ] = True,
    questions: Annotated[
        Path | None, typer.Option(help="Questions of your own about an indexed collection, one JSON object a line.")
    ] = None,
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection --questions are about.")] = "",
    every: Every = 1,
) -> None:
    """Write rows to train a cross-encoder on: every judged question, and passages that the search finds for it."""
    from evaluation.candidates import candidates_of_set
    from evaluation.errors import EvaluationError
    from evaluation.sets import beir, load_sets
    from rewriter.reranking.rows import write_rows
    from server.rewriters import open_rewriter
    from text.files import replacing

    state = state_of(context)
    settings = state.settings(overriding(collection=collection))
    chosen = load_sets(listed(sets), data, every, split)
    if questions is not None:
        chosen.append(beir.own_questions(questions).every(every))
    if not chosen:
        raise EvaluationError("Say whose questions to take: --sets with --data, or --questions with --collection.")
    with bench(settings, state, teacher) as measuring:
        rewriter = open_rewriter(settings)

        def rows() -> Iterator[RerankExample]:
            for one in chosen:
                yield from candidates_of_set(one, rewriter, measuring)

        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as draft:
            count = write_rows(draft, rows())
    state.err.print(f"Wrote {count:,} questions to {out}.")
