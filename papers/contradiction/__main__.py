"""`python -m papers.contradiction`: pairs of statements and evidence, the model trained on them, and what it is worth."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Cpu, Data
from cli.shared.state import state_of
from papers.command_line import data_folder, paper_app

RECIPE = Path(__file__).parent / "recipes" / "support.toml"
ROWS = 20_000


def pairs(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    data: Data = None,
    rows: Annotated[int, typer.Option(min=1, help="About so many rows.")] = ROWS,
    seed: int = 1,
) -> None:
    """Write what pages say, what turns it, and what they do not speak of, from all products but those measured on."""
    from papers.contradiction.pages import doc2dial_pages, product_pages, synthetic_answers, written_answers
    from papers.contradiction.pairs import balanced, page_pairs, told_pairs, write_pairs
    from text.files import replacing

    folder, rng = data_folder(data), random.Random(seed)
    pages = product_pages(folder, unseen=False) | doc2dial_pages(folder, unseen=False)
    told = [*written_answers(folder / "product_dialogs" / "dialogs.train.jsonl"), *synthetic_answers(folder)]
    made = [*page_pairs(pages.values(), rng), *told_pairs(pages, told, rng)]
    with replacing(out) as draft:
        count = write_pairs(draft, balanced(made, rng, rows))
    state_of(context).err.print(f"Wrote {count:,} rows to {out}.")


def train(
    context: typer.Context,
    data: Annotated[Path, typer.Option(help="The folder of pairs.jsonl.")] = Path("."),
    name: Annotated[
        str, typer.Option(help="Name of the run; the same name goes on with a run that was cut.")
    ] = "support",
    recipe: Annotated[Path, typer.Option(help="The recipe, a TOML file.")] = RECIPE,
    cpu: Cpu = False,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves it to torch.")] = 0,
) -> None:
    """Train the pair model; a run that was stopped or killed goes on with the same command."""
    from cli.train import machine_of, with_fetched_base
    from papers.contradiction import family
    from rewriter.runs import run_folder
    from rewriter.training import read_recipe
    from rewriter.training import train as train_run

    state = state_of(context)
    chosen = with_fetched_base(state, read_recipe(str(recipe)))
    folder = run_folder(state.settings().home, name, family.SUPPORTS)
    train_run(
        chosen, data, folder, machine=machine_of(state, cpu, threads), callback=lambda text: state.err.print(text)
    )
    state.out.print(str(folder), soft_wrap=True)


app = paper_app(
    "Support that sees contradiction: pairs, the model trained on them, and its figures.", pairs=pairs, train=train
)

if __name__ == "__main__":
    app(prog_name="python -m papers.contradiction")
