"""`python -m papers.contradiction`: pairs of statements and evidence, the model trained on them, and what it is worth."""

from __future__ import annotations

import random
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.state import state_of
from papers.command_line import Data, data_folder, paper_app, train_command

RECIPE = Path(__file__).parent / "recipes" / "support.toml"
ROWS = 90_000
BASE = "ms-marco-minilm-l12"
PACKAGED = Path(str(files("rewriter") / "default_support"))
FITTED = ("uv", "mkdocs-material")
"""Products whose statements the weights of both scores are fitted on; figures are of the others."""


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


train = train_command("papers.contradiction.family:SUPPORTS", RECIPE, "support", "Train the pair model.")


def pack(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder to write, such as rewriter/default_support.")],
    name: Annotated[str, typer.Option(help="Name of the run.")] = "support",
    base: Annotated[str, typer.Option(help="The model it was trained from.")] = BASE,
) -> None:
    """Write a finished run without the weights that it shares with its base."""
    from papers.contradiction.family import SUPPORTS
    from papers.packing import pack as pack_run
    from rewriter.runs import run_folder
    from server.registry import resolve

    state = state_of(context)
    home = state.settings().home
    shared = pack_run(run_folder(home, name, SUPPORTS), Path(resolve(base, home)), folder, SUPPORTS, "support")
    state.err.print(f"{shared:,} bytes of weights are the base's.")


def table(
    context: typer.Context,
    data: Data = None,
    folder: Annotated[Path, typer.Option(help="A packed model.")] = PACKAGED,
    edits: Annotated[int, typer.Option(min=1, help="Planted edits.")] = 1000,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit the weights of both scores on products left out of it.")
    ] = False,
    seed: int = 1,
) -> None:
    """Print what words alone, and words and model together, let through on products that nothing was trained on."""
    from cli.shared.console import progress
    from evaluation import report
    from papers.contradiction import measuring
    from papers.contradiction.pages import agents_answers, doc2dial_pages, product_pages, written_answers
    from server.registry import resolve
    from server.turn.support import SUPPORTED, PairModel

    state, source, rng = state_of(context), data_folder(data), random.Random(seed)
    model = PairModel(folder, Path(resolve(BASE, state.settings().home)))
    pages = {name: page for name, page in product_pages(source, unseen=True).items() if (page.product in FITTED) == fit}
    dialogs = source / "product_dialogs"
    told = [one for split in ("train", "dev") for one in written_answers(dialogs / f"dialogs.{split}.jsonl")]
    sets = {"Products": [*measuring.page_cases(pages.values(), rng), *measuring.told_cases(pages, told, rng)]}
    if not fit:
        documents = doc2dial_pages(source, unseen=True)
        sets["People's sentences (Doc2Dial)"] = list(measuring.told_cases(documents, agents_answers(source), rng))
    for name, cases in sets.items():
        drawn = measuring.drawn(cases, rng, edits, edits // 2)
        with progress(state.err, name, len(drawn)) as advance:
            found = measuring.checked(drawn, model, advance)
        if fit:
            weights = ", ".join(f"{one:.2f}" for one in measuring.fitted(found))
            state.out.print(f"BIAS, LEXICAL, READ = {weights}")
        rows = measuring.rows(found, SUPPORTED)
        state.out.print(f"{name}\n", report.table(measuring.HEAD, rows), sep="\n", soft_wrap=True)


app = paper_app(
    "Support that sees contradiction: pairs, the model trained on them, and its figures.",
    pairs=pairs,
    train=train,
    pack=pack,
    table=table,
)

if __name__ == "__main__":
    app(prog_name="python -m papers.contradiction")
