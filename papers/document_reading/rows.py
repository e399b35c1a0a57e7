"""Write rows to train a cross-encoder or a reader on, from questions about papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Every
from cli.shared.state import state_of
from papers.command_line import Data, data_folder, train_command

RECIPE = Path(__file__).parent / "recipes" / "reader.toml"


def rows(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    data: Data = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="Draw evidence by BM25's scores instead of opening labels.")
    ] = False,
    reader: Annotated[
        bool, typer.Option("--reader", help="Rows to train a reader on, one paragraph and its answer each.")
    ] = False,
    every: Every = 1,
) -> None:
    """Write questions about papers with their evidence and four times as many other paragraphs."""
    from papers.cross_encoder.rows import write_rows
    from papers.document_reading.evidence_rows import reader_rows, reranker_rows, training_papers
    from rewriter.examples import write_examples
    from text.files import replacing

    papers = training_papers(data_folder(data))[::every]
    with replacing(out) as draft:
        if reader:
            count = write_examples(draft, reader_rows(papers, sampled=sampled))
        else:
            count = write_rows(draft, reranker_rows(papers, sampled=sampled))
    state_of(context).err.print(f"Wrote {count:,} rows to {out}.")


train = train_command("papers.document_reading.reader:READERS", RECIPE, "reader", "Train a reader.")
