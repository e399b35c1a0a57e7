"""`anaphora synth`: propositions and annotated dialogs from documents; the room `synth` does the work.

`anaphora synth PATHS…` makes them; the other commands of the group work on what was made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from cli.shared.options import Exclude, Include, overriding
from cli.shared.state import InputError, State, state_of
from text.progress import track_progress

if TYPE_CHECKING:
    from index.documents import Document
    from index.encoders import Encoder
    from server.settings import Settings
    from synth import Folder, RunFacts, SynthPlan
    from synth.running.live import BatchAsker

MAKE = "make"


class MakeByDefault(TyperGroup):
    """A group in which what is no command's name begins the arguments of `make`."""

    default = MAKE

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=MakeByDefault,
    help="Make propositions and annotated dialogs from documents.",
    no_args_is_help=True,
)


class Side(StrEnum):
    """A side of the split."""

    TRAIN = "train"
    DEV = "dev"
    TEST = "test"


@app.command(MAKE)
def make(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders of documents.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder of the run; running again goes on where it stopped.")],
    until: Annotated[Literal["propositions", "dialogs"], typer.Option(help="Stop after this step.")] = "dialogs",
    include: Include = None,
    exclude: Exclude = None,
    model: Annotated[str, typer.Option(help="As llm.model; with batch files the model's name in the requests.")] = "",
    concurrency: Annotated[int, typer.Option(min=0, help="Requests at once; 0 leaves it to the engine.")] = 0,
    structured: Annotated[
        Literal["auto", "schema", "text"],
        typer.Option(help="Have the server hold answers to a JSON schema; auto: if it can."),
    ] = "auto",
    batch_out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ask nobody: write the next requests here (OpenAI Batch).")
    ] = None,
    batch_in: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the responses to such a file.", exists=True)
    ] = None,
    attempts: Annotated[int, typer.Option(min=1, max=10, help="Answers an item may take.")] = 3,
    list_size: Annotated[int, typer.Option(min=2, max=200, help="Propositions a dialog is made from.")] = 30,
    window_tokens: Annotated[int, typer.Option(min=50, help="Tokens of a document shown at once.")] = 600,
    windows: Annotated[int, typer.Option(min=0, help="Most windows of a document; 0 takes all.")] = 0,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Sampling temperature.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Decides the split and is sent with each request.")] = 0,
    minutes: Annotated[float, typer.Option(min=0, help="Ask nothing new after this long; 0 for no limit.")] = 0,
    only_answered: Annotated[
        bool, typer.Option("--only-answered", help="Go on to dialogs with the windows answered so far.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate requests, tokens and cost, and stop.")] = False,
    price_in: Annotated[float, typer.Option(min=0, help="Price of a million prompt tokens, for the estimate.")] = 0,
    price_out: Annotated[float, typer.Option(min=0, help="Price of a million answer tokens.")] = 0,
) -> None:
    """Make propositions and dialogs from documents; what was answered is never asked again."""
    from cli.shared.language_model import left_out, open_task_runner
    from cli.shared.resources import existing
    from synth import (
        BatchAsker,
        Folder,
        Journal,
        Paused,
        Sampling,
        SynthPlan,
        TaskRunner,
        read_responses,
        read_sources,
        synthesise,
    )

    state = state_of(context)
    batch = batch_out is not None or batch_in is not None
    settings = state.settings(overriding(llm__model="" if batch else model))
    plan = SynthPlan(window_tokens, windows, list_size, seed, only_answered)
    documents = read_sources(
        existing(paths),
        (*settings.index.include, *(include or ())),
        (*settings.index.exclude, *(exclude or ())),
        lambda name, why: left_out(state, name, why),
    )
    encoder = open_encoder(settings, state)
    if dry_run:
        tell_estimate(state, documents, plan, encoder, (price_in, price_out), dialogs=until == "dialogs")
        return
    folder = Folder(out.expanduser().absolute())
    batches: BatchAsker | None = None
    with track_progress(folder.path), ExitStack() as stack:
        if batch:
            name = model or settings.llm.asked_name
            if not name:
                raise InputError("Batch requests name their model: give --model (or set llm.remote_name).")
            journal = stack.enter_context(Journal(folder.journal))
            answered = read_responses(batch_in, journal) if batch_in is not None else set()
            sampling = Sampling(name, temperature, seed)
            batches = BatchAsker(batch_out, sampling, schema=structured != "text")
            runner = TaskRunner(journal, sampling, batches, attempts=attempts)
        else:
            deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
            runner = stack.enter_context(
                open_task_runner(
                    settings,
                    state,
                    folder,
                    temperature=temperature,
                    seed=seed,
                    concurrency=concurrency,
                    structured=structured,
                    attempts=attempts,
                    stop=lambda: time.monotonic() > deadline,
                )
            )
        try:
            synthesise(
                documents,
                plan,
                runner,
                encoder,
                folder,
                dialogs=until == "dialogs",
                callback=lambda facts: tell(state, folder, facts),
            )
        except Paused as paused:
            then = "Run the same command again to go on."
            if batches is not None and batches.written:
                then = f"Wrote {batches.written} requests to {batch_out}; give the responses with --batch-in."
            elif batches is not None:
                then = "Name a file for their requests with --batch-out."
            state.err.print(f"{paused} {then}")
    if batches is not None and (strange := answered - runner.judged):
        state.err.print(
            f"{len(strange)} responses answer nothing this run asks; they were made with other documents, "
            "prompts or options.",
            style="yellow",
        )


@app.command()
def report(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
) -> None:
    """Write a run's reports again, from its files."""
    from synth import Folder
    from synth.facts import read_facts
    from synth.report.writing import write_reports

    folder = Folder(out.expanduser().absolute())
    write_reports(folder, read_facts(folder.facts))
    state_of(context).out.print(str(folder.path / "report.html"))


def open_encoder(settings: Settings, state: State) -> Encoder:
    """The embedding model of the settings, fetched first where it is missing."""
    from cli.shared.resources import fetch_models
    from server.chat.loaded_models import Models

    fetch_models(settings, state, reranker=False)
    return Models(settings).encoder()


def tell_estimate(
    state: State,
    documents: Sequence[Document],
    plan: SynthPlan,
    encoder: Encoder,
    prices: tuple[float, float],
    *,
    dialogs: bool,
) -> None:
    """Print what each step will ask, in tokens, and in money where prices are given."""
    from cli.shared.console import open_table
    from synth.estimate import estimate
    from synth.pipeline import windows_of

    windows = windows_of(documents, plan, encoder)
    costs = estimate(windows, plan.list_size, encoder.count_tokens, dialogs=dialogs)
    numeric = ("requests", "tokens in", "tokens out", *(["cost"] if any(prices) else []))
    table = open_table("step", *numeric, right=numeric)
    total = 0.0
    for cost in costs:
        price = cost.price(*prices)
        total += price
        row = (cost.step, f"{cost.requests:,}", f"{cost.tokens_in:,}", f"{cost.tokens_out:,}")
        table.add_row(*row, *([f"{price:,.2f}"] if any(prices) else []))
    state.out.print(f"{len(documents)} documents, {len(windows)} windows; the estimate:")
    state.out.print(table)
    if any(prices):
        state.out.print(f"total {total:,.2f}")


def tell(state: State, folder: Folder, facts: RunFacts) -> None:
    """Print what a half of a run came to."""
    state.out.print(
        f"{facts.dialogs:,} dialogs with {facts.questions:,} questions, {facts.share_needing_rewrite:.0%} of "
        f"which need rewriting ({sum(facts.rejected_pairs.values()):,} pairs rejected): {folder.path / 'report.html'}"
        if facts.sides
        else f"{facts.propositions:,} propositions from {facts.documents:,} documents "
        f"({sum(facts.left_out.values()):,} sentences left out, {facts.duplicates_merged:,} merged): "
        f"{folder.propositions}",
    )
