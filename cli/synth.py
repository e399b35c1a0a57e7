"""`anaphora synth`: propositions and annotated dialogs from documents; the room `synth` does the work.

The settings' language model writes them, or a service that takes batch files; `adapt` has the model write them too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.shared.console import open_table, stages
from cli.shared.options import LanguageModel, overriding
from cli.shared.resources import existing, fetch_models
from cli.shared.state import InputError, SettingsError, State, state_of
from text.progress import track_progress
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from index.documents import Document
    from index.encoders import Encoder
    from server.settings import Settings
    from synth import Folder, RunFacts, SynthPlan
    from synth.askers import ChatAsker
    from synth.tasks import Pending, Record, TaskProgress, TaskRunner

REMOTE_CONCURRENCY = 16
"""Requests at once to a server, unless said otherwise."""
ANSWER_SECONDS = 900.0
"""Longest wait for a piece of an answer."""
SMALL_BYTES = 2_000_000_000
"""A model in a smaller file leaves the questions of a dialog complete, by `docs/lab/synth-run.md`."""


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate requests, tokens and cost, and stop.")] = False,
    prices: Annotated[
        tuple[float, float], typer.Option(metavar="IN OUT", help="Prices of a million tokens, for the estimate.")
    ] = (0, 0),
) -> None:
    """Make propositions and dialogs from documents; what was answered is never asked again."""
    from synth import BatchAsker, Folder, Journal, Paused, Sampling, SynthPlan, TaskRunner, read_responses, synthesise

    state, dialogs = state_of(context), until == "dialogs"
    settings = state.settings(overriding(llm__model="" if batch else model))
    plan = SynthPlan(windows_per_document=windows, list_size=list_size, seed=seed)
    documents = read_documents(state, settings, existing(paths))
    encoder = open_encoder(settings, state)
    if dry_run:
        tell_estimate(state, documents, plan, encoder, prices, dialogs=dialogs)
        if dialogs and not batch:
            tell_small(state, settings.llm.model)
        return
    folder = Folder(out.expanduser().absolute())
    tell_other_seed(state, folder, seed)
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
            live = open_task_runner(
                settings, state, folder, seed, concurrency, dialogs=dialogs, stop=lambda: time.monotonic() > deadline
            )
            runner = stack.enter_context(live)
        report = partial(tell, state, folder)
        try:
            synthesise(documents, plan, runner, encoder, folder, dialogs=dialogs, callback=report)
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


def read_documents(state: State, settings: Settings, paths: Sequence[Path]) -> list[Document]:
    """Read the documents below `paths`; a line is printed for each file that is left out."""
    from synth import read_sources

    def left_out(name: str, why: str) -> None:
        state.err.print(sanitize_line(f"left out {name}: {why}"), style="yellow")

    return read_sources(paths, settings.index.include, settings.index.exclude, left_out)


def open_encoder(settings: Settings, state: State) -> Encoder:
    """The embedding model of the settings, fetched first where it is missing."""
    from server.chat.loaded_models import Models

    fetch_models(settings, state, reranker=False)
    return Models(settings).encoder()


def tell_other_seed(state: State, folder: Folder, seed: int) -> None:
    """Print that a run was made with another seed, where it was: nothing of it is used then."""
    from synth.report import made_with_seed

    before = made_with_seed(folder)
    if before is not None and before != seed:
        state.err.print(
            f"{folder.path} was made with --seed {before}: with --seed {seed} documents change sides and everything is "
            f"asked again. Its answers are kept; --seed {before} brings that run back, and another --out keeps both.",
            style="yellow",
        )


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
    from synth.pipeline import windows_of
    from synth.report import estimate

    windows = windows_of(documents, plan, encoder)
    costs = estimate(windows, plan.list_size, encoder.count_tokens, dialogs=dialogs)
    numeric = ("requests", "tokens in", "tokens out", *(["cost"] if any(prices) else []))
    table = open_table("step", *numeric, right=numeric)
    for cost in costs:
        row = (cost.step, f"{cost.requests:,}", f"{cost.tokens_in:,}", f"{cost.tokens_out:,}")
        table.add_row(*row, *([f"{cost.price(*prices):,.2f}"] if any(prices) else []))
    state.out.print(f"{len(documents)} documents, {len(windows)} windows; the estimate:")
    state.out.print(table)
    if any(prices):
        state.out.print(f"total {sum(cost.price(*prices) for cost in costs):,.2f}")


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


def tell_small(state: State, model: str) -> None:
    """Print that a model of this machine is too small to write dialogs, where its size is known and it is."""
    from server.registry import registered_models

    entry, file = registered_models().get(model), Path(model).expanduser()
    size = entry.size if entry else file.stat().st_size if file.is_file() else SMALL_BYTES
    if size < SMALL_BYTES:
        state.err.print(
            f"{file.name} is too small for dialogs: models of 1.5 billion parameters or fewer leave every follow-up "
            "complete, so that a rewriter learns nothing from it. Give --model a larger one, such as "
            "qwen3-4b-instruct-2507, or the address of a server (http://…/v1). Propositions are fair; `anaphora synth "
            "--until propositions` makes these alone.",
            style="yellow",
        )


def have_written(state: State, settings: Settings, paths: Sequence[Path], encoder: Encoder, folder: Folder) -> None:
    """Have the settings' language model write propositions and dialogs into `folder`.

    Earlier output is kept; only new and changed documents are sent to the model. Raises NoDocuments, SettingsError
    where there is no model, and ModelFailed.
    """
    from synth import Paused, SynthPlan, synthesise

    documents = read_documents(state, settings, paths)
    with open_task_runner(settings, state, folder) as runner:
        try:
            facts = synthesise(documents, SynthPlan(), runner, encoder, folder)
        except Paused as paused:
            raise InputError(f"{paused} Run the same command again to go on.") from None
    state.err.print(f"{facts.propositions:,} propositions from {len(documents):,} documents.")


@contextmanager
def open_task_runner(
    settings: Settings,
    state: State,
    folder: Folder,
    seed: int = 0,
    concurrency: int = 0,
    *,
    dialogs: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[TaskRunner]:
    """Has the settings' language model answer for the run in `folder`, and shows how far it is.

    The engine starts with the first question and ends with the context. With `dialogs` it is told before that a model
    is too small for them. Raises SettingsError where the settings name no model.
    """
    from server.engines import LocalEngine, NoEngine, open_engine
    from server.settings import PARALLEL
    from synth.tasks import Journal, Sampling, TaskRunner

    llm = settings.llm
    # Whole answers are waited for here, and several requests share the local engine.
    patient = llm.model_copy(update={"timeout_seconds": max(llm.timeout_seconds, ANSWER_SECONDS)})
    engine = open_engine(settings.model_copy(update={"llm": patient}))
    if isinstance(engine, NoEngine):
        raise SettingsError(
            "Making propositions and dialogs needs a language model: give --model, such as qwen3-4b-instruct-2507, or "
            "the address of a server (http://…/v1)."
        )
    here = isinstance(engine, LocalEngine)
    try:
        name = Path(llm.model).name if here else llm.asked_name
        if not name:
            engine.start()
            name = str(getattr(engine.chat_model(), "model_name", engine.name))
        sampling = Sampling(name, seed=seed)
        with ExitStack() as stack:

            def start() -> ChatAsker:
                from synth.askers import ChatAsker

                if dialogs:
                    tell_small(state, llm.model)
                fetch_models(settings, state, encoder=False, reranker=False, llm=True)
                state.err.print("starting the language model")
                engine.start()
                model = engine.chat_model()
                assert model is not None, "only NoEngine has none"
                at_once = concurrency or (PARALLEL if here else REMOTE_CONCURRENCY)
                content = settings.trace.content
                asker = ChatAsker(
                    model, sampling, concurrency=at_once, stop=stop, traces=folder.traces, content=content
                )
                return stack.enter_context(asker)

            journal = stack.enter_context(Journal(folder.journal))
            draw = stack.enter_context(stages(state.err))

            def report(now: TaskProgress) -> None:
                draw(now.step, now.done, now.total)

            yield TaskRunner(journal, sampling, _StartedWhenAsked(start), report=report)
    finally:
        engine.stop()


class _StartedWhenAsked:
    """An asker that is made when there is something to ask: a finished run loads no model."""

    def __init__(self, start: Callable[[], ChatAsker]) -> None:
        self._start = start

    @cached_property
    def _asker(self) -> ChatAsker:
        return self._start()

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        self._asker.ask(pending, record)
