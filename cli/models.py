"""`anaphora models`: which models are registered and fetched; which were trained, and which of those serve.

The fetching itself is `server.registry`'s, promotion is `server.runs`'s.
"""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer
from rich.text import Text

from cli.shared.console import open_table
from cli.shared.resources import fetch_models, fetch_told
from cli.shared.state import state_of

app = typer.Typer(help="List and fetch models; list, promote and roll back trained rewriters.")

SHOWN = ("rouge_l", "exact", "gate_f1", "p50_ms", "map", "map_follow_ups", "answer_f1")
"""The scores of a run that its line in the list shows."""

Run = Annotated[str, typer.Argument(help="A run from `anaphora models runs`.", show_default=False)]


@app.command("list", hidden=True)
@app.callback(invoke_without_command=True)
def list_models(ctx: typer.Context) -> None:
    """List the models: name, kind, size, licence, and whether each is fetched."""
    if ctx.invoked_subcommand is not None:
        return
    from server.installation import recommendation
    from server.processes import machine_cores
    from server.registry import recommended_models, registered_models, remembered

    state = state_of(ctx)
    settings = state.settings()
    home, remembered_models = settings.home, remembered(settings.home)
    table = open_table("name", "kind", "size", "licence", "fetched", "what it is", right=("size",))
    for model in (*registered_models().values(), *remembered_models.values()):
        fetched = "yes" if model.fetched(home) else "no"
        size = f"{model.size / 1e6:,.0f} MB"
        table.add_row(model.name, model.kind, size, model.licence, fetched, model.description)
    for offer in recommended_models().values():
        if offer.reference not in remembered_models:
            about = f"{offer.description} From the hub; {offer.needs(machine_cores())}."
            table.add_row(offer.name, "llm", f"{offer.size / 1e6:,.0f} MB", offer.licence, "no", about)
    state.out.print(table)
    if advice := recommendation(settings):
        state.err.print(f"\n{advice}", soft_wrap=True)


@app.command()
def fetch(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names from `anaphora models`, or hf:OWNER/REPO/FILE.gguf; none: those of the settings.",
            show_default=False,
        ),
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Even where this machine has too little memory.")] = False,
) -> None:
    """Fetch models into the home folder and print the path of each: the GGUF file of an LLM, else a folder.

    Size, licence, origin and SHA-256 are told first. What an earlier run left is resumed; verified models are kept.
    """
    from server.registry.fetching import known

    state = state_of(ctx)
    settings = state.settings()
    if not names:
        fetch_models(settings, state, llm=True)
        return
    home = settings.home
    for model in [known(name, home) for name in names]:
        path = fetch_told(model, home, state, memory=sys.maxsize if anyway else None)
        state.out.print(str(path), soft_wrap=True)


@app.command()
def runs(ctx: typer.Context) -> None:
    """List trained rewriters, newest first: family, size, scores on what was held out, and which ones serve."""
    from rewriter.load import packaged_folder
    from rewriter.runs import list_runs, promoted_run

    state = state_of(ctx)
    home = state.settings().home
    table = open_table("run", "family", "size", "made", "scores", "serves", right=("size",))
    for run in list_runs(home):
        scores = ", ".join(f"{name} {value:g}" for name, value in run.metrics.items() if name in SHOWN)
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created))
        serves = "yes" if run.promoted else ""
        table.add_row(
            Text(run.name), run.family, f"{run.size / 1e6:,.0f} MB", created, Text(run.problem or scores), Text(serves)
        )
    packaged = "" if packaged_folder() is None else "yes" if not promoted_run(home) else "no"
    table.add_row("(packaged default)" if packaged else "(no packaged default)", "", "", "", "", packaged)
    state.out.print(table)


@app.command()
def promote(
    ctx: typer.Context,
    run: Run,
    export: Annotated[bool, typer.Option("--export", help="First make its export again from its weights.")] = False,
) -> None:
    """Make a run serve. A running server changes over with its next turn."""
    from rewriter.runs import run_folder
    from rewriter.training import export as export_run
    from server.runs import promote as make_serve

    state = state_of(ctx)
    home = state.settings().home
    if export:
        export_run(run_folder(home, run), lambda text: state.err.print(text))
    before = make_serve(home, run)
    state.err.print(f"{run} serves now, in place of {before}.")


@app.command()
def rollback(ctx: typer.Context) -> None:
    """Bring back what served before the last promotion."""
    from server.runs import rollback as bring_back

    state = state_of(ctx)
    message = bring_back(state.settings().home)
    state.err.print(f"{message[0].upper()}{message[1:]} serves again.")
