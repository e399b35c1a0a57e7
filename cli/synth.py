"""`anaphora synth`: propositions and annotated dialogs from documents; the room `synth` does the work.

`anaphora synth PATHS…` makes them; the other commands of the group work on what was made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from cli.asking import open_asker, progress
from cli.state import InputError, State, state_of
from text.unsafe import showable_line

if TYPE_CHECKING:
    from index.documents import Document
    from index.encoders import Encoder
    from server.settings import Settings
    from synth.pipeline import SynthPlan
    from synth.running import Settler
    from synth.running.live import Structured

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


class SynthStep(StrEnum):
    """How far to go."""

    PROPOSITIONS = "propositions"
    DIALOGS = "dialogs"


class Side(StrEnum):
    """A side of the split."""

    TRAIN = "train"
    DEV = "dev"
    TEST = "test"


class StructuredOutput(StrEnum):
    """Whether the server holds answers to a JSON schema."""

    AUTO = "auto"
    SCHEMA = "schema"
    TEXT = "text"


@app.command(MAKE)
def make(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders of documents.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder of the run; running again goes on where it stopped.")],
    until: Annotated[SynthStep, typer.Option(help="Stop after this step.")] = SynthStep.DIALOGS,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only matching files, as in .gitignore; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Never matching files, as in .gitignore; repeatable.")
    ] = None,
    model: Annotated[str, typer.Option(help="As llm.model; with batch files the model's name in the requests.")] = "",
    concurrency: Annotated[int, typer.Option(min=0, help="Requests at once; 0 leaves it to the engine.")] = 0,
    structured: Annotated[
        StructuredOutput, typer.Option(help="Have the server hold answers to a JSON schema; auto: if it can.")
    ] = StructuredOutput.AUTO,
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
    from synth.pipeline import SynthPlan

    state = state_of(context)
    batch = batch_out is not None or batch_in is not None
    settings = state.settings({"llm": {"model": model}} if model and not batch else {})
    plan = SynthPlan(window_tokens, windows, list_size, seed, only_answered)
    documents = read(
        state, paths, (*settings.index.include, *(include or ())), (*settings.index.exclude, *(exclude or ()))
    )
    encoder = open_encoder(settings, state)
    if dry_run:
        tell_estimate(state, documents, plan, encoder, (price_in, price_out), until)
        return
    run = _Run(state, settings, out, documents, plan, encoder, until, attempts)
    if batch:
        name = model or settings.llm.remote_name
        if not name:
            raise InputError("Batch requests name their model: give --model (or set llm.remote_name).")
        run.by_files(name, temperature, batch_out, batch_in, schema=structured is not StructuredOutput.TEXT)
    else:
        run.live(temperature, concurrency, structured.value, minutes)


@app.command()
def compare(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
    side: Annotated[list[Side] | None, typer.Option(help="Only dialogs of this side; repeatable.")] = None,
) -> None:
    """Search propositions and sentences with the run's questions: typed with history, typed, and in full."""
    import tempfile

    from evaluation.pools import compare as compare_pools
    from evaluation.pools import table
    from synth.dialogs.rows import read_dialogs
    from synth.folder import Folder, read_documents
    from synth.propositions.store import read_propositions
    from text.files import write_text

    state = state_of(context)
    folder = Folder(out.expanduser().absolute())
    documents = read_documents(folder.documents)
    paths = [folder.dialogs(one.value) for one in side or Side]
    dialogs = [dialog for path in paths if path.is_file() for dialog in read_dialogs(path)]
    if not any(dialog.questions() for dialog in dialogs):
        raise InputError(f"{folder.path} holds no questions; run `anaphora synth` until its dialogs are written.")
    propositions = list(read_propositions(folder.propositions))
    encoder = open_encoder(state.settings(), state)
    with tempfile.TemporaryDirectory() as workplace, state.err.status("comparing") as status:
        cells = compare_pools(documents, propositions, dialogs, encoder, Path(workplace), status.update)
    told = table(cells)
    write_text(folder.path / "compare.md", told)
    state.out.print(f"{cells[0].questions:,} questions, {len(documents):,} documents")
    state.out.print(told)


@app.command()
def report(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
) -> None:
    """Write a run's reports again, from its files."""
    from synth.facts import read_facts
    from synth.folder import Folder
    from synth.report.writing import write_reports

    folder = Folder(out.expanduser().absolute())
    write_reports(folder, read_facts(folder.facts))
    state_of(context).out.print(str(folder.path / "report.html"))


def read(state: State, paths: Sequence[Path], include: Sequence[str], exclude: Sequence[str]) -> list[Document]:
    """The documents of the given paths; what cannot be read is told and left out. Raises InputError for none."""
    from index.loaders import scan

    given = [path.expanduser().absolute() for path in paths]
    for path in given:
        if not path.exists():
            raise InputError(f"There is no file or folder {path}; correct the path.")
    documents: list[Document] = []
    for file in scan(given, include, exclude):
        if file.error:
            state.err.print(showable_line(f"left out {file.source.document_id}: {file.error}"), style="yellow")
        documents.extend(file.documents)
    if not documents:
        raise InputError("There is no document in these paths; check them, --include and --exclude.")
    return documents


def open_encoder(settings: Settings, state: State) -> Encoder:
    """The embedding model of the settings, fetched first where it is missing."""
    from cli.resources import fetch_models
    from server.chat.models import Models

    fetch_models(settings, state, reranker=False)
    return Models(settings).encoder()


def tell_estimate(
    state: State,
    documents: Sequence[Document],
    plan: SynthPlan,
    encoder: Encoder,
    prices: tuple[float, float],
    until: SynthStep,
) -> None:
    """Print what each step will ask, in tokens, and in money where prices are given."""
    from rich.table import Table

    from synth.estimate import estimate
    from synth.pipeline import windows_of

    shown = windows_of(documents, plan, encoder)
    costs = estimate(shown, plan.list_size, encoder.count_tokens, dialogs=until is SynthStep.DIALOGS)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("step", "requests", "tokens in", "tokens out", *(["cost"] if any(prices) else [])):
        table.add_column(column, justify="left" if column == "step" else "right")
    total = 0.0
    for cost in costs:
        price = cost.price(*prices)
        total += price
        row = (cost.step, f"{cost.requests:,}", f"{cost.tokens_in:,}", f"{cost.tokens_out:,}")
        table.add_row(*row, *([f"{price:,.2f}"] if any(prices) else []))
    state.out.print(f"{len(documents)} documents, {len(shown)} windows; the estimate:")
    state.out.print(table)
    if any(prices):
        state.out.print(f"total {total:,.2f}")


class _Run:
    """One call of `make`: the same steps, whoever answers."""

    def __init__(
        self,
        state: State,
        settings: Settings,
        out: Path,
        documents: Sequence[Document],
        plan: SynthPlan,
        encoder: Encoder,
        until: SynthStep,
        attempts: int,
    ) -> None:
        from synth.folder import Folder

        self._state = state
        self._settings = settings
        self._folder = Folder(out.expanduser().absolute())
        self._documents = documents
        self._plan = plan
        self._encoder = encoder
        self._until = until
        self._attempts = attempts

    def live(self, temperature: float, concurrency: int, structured: Structured, minutes: float) -> None:
        """Ask the settings' engine. Raises ModelFailed; a run out of time says so."""
        from synth.running import Journal, Paused, Settler

        deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        with (
            Journal(self._folder.journal) as journal,
            open_asker(
                self._settings,
                self._state,
                temperature=temperature,
                seed=self._plan.seed,
                concurrency=concurrency,
                structured=structured,
                stop=lambda: time.monotonic() > deadline,
            ) as (asker, sampling),
            progress(self._state) as report,
        ):
            settler = Settler(journal, sampling, asker, attempts=self._attempts, report=report)
            try:
                self._steps(settler)
            except Paused as paused:
                self._state.err.print(f"{paused} Run the same command again to go on.")

    def by_files(
        self, model: str, temperature: float, batch_out: Path | None, batch_in: Path | None, *, schema: bool
    ) -> None:
        """Take responses, go as far as they reach, and write the next requests."""
        from synth.running import Journal, Paused, Sampling, Settler
        from synth.running.batch import BatchAsker, read_responses

        sampling = Sampling(model, temperature, self._plan.seed)
        with Journal(self._folder.journal) as journal:
            answered = read_responses(batch_in, journal) if batch_in is not None else set()
            asker = BatchAsker(batch_out, sampling, schema=schema)
            settler = Settler(journal, sampling, asker, attempts=self._attempts)
            try:
                self._steps(settler)
            except Paused as paused:
                told = f"{paused} "
                if asker.written:
                    told += f"Wrote {asker.written} requests to {batch_out}; give the responses with --batch-in."
                else:
                    told += "Name a file for their requests with --batch-out."
                self._state.err.print(told)
            if strange := answered - settler.judged:
                self._state.err.print(
                    f"{len(strange)} responses answer nothing this run asks; they were made with other documents, "
                    "prompts or options.",
                    style="yellow",
                )

    def _steps(self, settler: Settler) -> None:
        from synth.pipeline import make_dialogs, make_propositions
        from synth.report.writing import write_reports

        folder = self._folder
        built, facts = make_propositions(self._documents, self._plan, settler, self._encoder, folder)
        self._state.out.print(
            f"{len(built.kept):,} propositions from {facts.documents:,} documents ({len(built.left_out):,} sentences "
            f"left out, {built.duplicates:,} merged): {folder.propositions}",
        )
        write_reports(folder, facts)
        if self._until is SynthStep.DIALOGS:
            facts = make_dialogs(built, self._plan, settler, self._encoder, folder, facts)
            rejected = sum(facts.rejected_pairs.values())
            self._state.out.print(
                f"{facts.dialogs:,} dialogs with {facts.questions:,} questions, {facts.share_needing_rewrite:.0%} of "
                f"which need rewriting ({rejected:,} pairs rejected): {folder.path / 'report.html'}",
            )
            write_reports(folder, facts)


def write_propositions(
    state: State,
    settings: Settings,
    paths: Sequence[Path],
    patterns: tuple[Sequence[str], Sequence[str]],
    encoder: Encoder,
) -> Path:
    """Have the settings' language model write propositions for a collection; returns their file.

    What was written for it before is kept; only new and changed documents are asked about.
    """
    from synth.folder import Folder
    from synth.pipeline import SynthPlan, make_propositions
    from synth.running import Journal, Settler

    folder = Folder(settings.home / "synth" / settings.collection)
    documents = read(state, paths, *patterns)
    with (
        Journal(folder.journal) as journal,
        open_asker(settings, state, temperature=0.0, seed=0) as (asker, sampling),
        progress(state) as report,
    ):
        settler = Settler(journal, sampling, asker, report=report)
        built, _ = make_propositions(documents, SynthPlan(), settler, encoder, folder)
    state.err.print(f"{len(built.kept):,} propositions from {len(documents):,} documents.")
    return folder.propositions
