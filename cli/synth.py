"""`anaphora synth`: propositions and annotated dialogs from documents; the room `synth` does the work."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.shared.console import open_table
from cli.shared.options import LanguageModel, overriding
from cli.shared.resources import existing, fetch_models
from cli.shared.state import InputError, State, state_of
from text.progress import track_progress

if TYPE_CHECKING:
    from index.encoders import Encoder
    from server.settings import Settings
    from synth import Folder, RunFacts


def synth(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders of documents.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder of the run; running again goes on where it stopped.")],
    until: Annotated[Literal["propositions", "dialogs"], typer.Option(help="Stop after this step.")] = "dialogs",
    model: LanguageModel = "",
    concurrency: Annotated[int, typer.Option(min=0, help="Requests at once; 0 leaves it to the engine.")] = 0,
    batch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Ask nobody: write requests.jsonl (OpenAI Batch) into this folder, and take its responses*.jsonl.",
        ),
    ] = None,
    windows: Annotated[int, typer.Option(min=0, help="Most windows of a document; 0 takes all.")] = 0,
    list_size: Annotated[int, typer.Option(min=2, max=200, help="Propositions a dialog is made from.")] = 30,
    seed: Annotated[int, typer.Option(help="Decides the split and is sent with each request.")] = 0,
    minutes: Annotated[float, typer.Option(min=0, help="Ask nothing new after this long; 0 for no limit.")] = 0,
) -> None:
    """Make propositions and dialogs from documents; what was answered is never asked again."""
    from cli.shared.language_model import left_out, open_task_runner
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
    settings = state.settings(overriding(llm__model="" if batch else model))
    plan = SynthPlan(windows_per_document=windows, list_size=list_size, seed=seed)
    documents = read_sources(
        existing(paths),
        settings.index.include,
        settings.index.exclude,
        lambda name, why: left_out(state, name, why),
    )
    encoder = open_encoder(settings, state)
    folder = Folder(out.expanduser().absolute())
    batches: BatchAsker | None = None
    answered: set[str] = set()
    with track_progress(folder.path), ExitStack() as stack:
        if batch is not None:
            name = model or settings.llm.asked_name
            if not name:
                raise InputError("Batch requests name their model: give --model (or set llm.model_name).")
            journal = stack.enter_context(Journal(folder.journal))
            for responses in sorted(batch.glob("responses*.jsonl")):
                answered |= read_responses(responses, journal)
            sampling = Sampling(name, seed=seed)
            batches = BatchAsker(batch / "requests.jsonl", sampling)
            runner = TaskRunner(journal, sampling, batches)
        else:
            deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
            runner = stack.enter_context(
                open_task_runner(
                    settings,
                    state,
                    folder,
                    seed=seed,
                    concurrency=concurrency,
                    dialogs=until == "dialogs",
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
            if batches is not None:
                then = f"Wrote {batches.written} requests to {batch}; put the responses beside them as responses.jsonl."
            state.err.print(f"{paused} {then}")
    if batches is not None and (strange := answered - runner.judged):
        state.err.print(
            f"{len(strange)} responses answer nothing this run asks; they were made with other documents, "
            "prompts or options.",
            style="yellow",
        )


def open_encoder(settings: Settings, state: State) -> Encoder:
    """The embedding model of the settings, fetched first where it is missing."""
    from server.chat.loaded_models import Models

    fetch_models(settings, state, reranker=False)
    return Models(settings).encoder()


def tell(state: State, folder: Folder, facts: RunFacts) -> None:
    """Print what a half of a run came to: its steps, what fell out, and where it is."""
    numeric = ("items", "tokens in", "tokens out", "seconds")
    table = open_table("step", "outcomes", *numeric, right=numeric)
    for name, step in facts.steps.items():
        outcomes = ", ".join(f"{count} {verdict}" for verdict, count in step.verdicts.items())
        numbers = (step.items, step.tokens_in, step.tokens_out, round(step.wall_seconds))
        table.add_row(name, outcomes, *(f"{number:,}" for number in numbers))
    state.out.print(table)
    for what, reasons in (("sentences", facts.left_out), ("pairs", facts.rejected_pairs)):
        if reasons:
            reasons_text = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            state.out.print(f"{what} left out: {reasons_text}", soft_wrap=True)
    state.out.print(
        f"{facts.dialogs:,} dialogs with {facts.questions:,} questions, {facts.share_needing_rewrite:.0%} of "
        f"which need rewriting ({sum(facts.rejected_pairs.values()):,} pairs rejected): {folder.path}"
        if facts.sides
        else f"{facts.propositions:,} propositions from {facts.documents:,} documents "
        f"({sum(facts.left_out.values()):,} sentences left out, {facts.duplicates_merged:,} merged): "
        f"{folder.propositions}",
    )
