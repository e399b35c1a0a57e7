"""The settings' language model writing propositions and dialogs for a command: its engine, and the progress shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.shared.console import stages
from cli.shared.resources import fetch_models
from cli.shared.state import InputError, SettingsError, State
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from index.encoders import Encoder
    from server.settings import Settings
    from synth import Folder
    from synth.askers import ChatAsker
    from synth.tasks import Pending, Record, TaskProgress, TaskRunner

REMOTE_CONCURRENCY = 16
"""Requests at once to a server, unless said otherwise."""
ANSWER_SECONDS = 900.0
"""Longest wait for a piece of an answer."""
SMALL_BYTES = 2_000_000_000
"""A model in a smaller file leaves the questions of a dialog complete, by `docs/lab/synth-run.md`."""


@contextmanager
def open_task_runner(
    settings: Settings,
    state: State,
    folder: Folder,
    *,
    seed: int = 0,
    concurrency: int = 0,
    dialogs: bool = True,
    stop: Callable[[], bool] | None = None,
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
        at_once = concurrency or (PARALLEL if here else REMOTE_CONCURRENCY)
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
                asker = ChatAsker(
                    model,
                    sampling,
                    concurrency=at_once,
                    stop=stop or (lambda: False),
                    traces=folder.traces,
                    content=settings.trace.content,
                )
                return stack.enter_context(asker)

            journal = stack.enter_context(Journal(folder.journal))
            draw = stack.enter_context(stages(state.err))

            def report(now: TaskProgress) -> None:
                draw(now.step, now.done, now.total)

            yield TaskRunner(journal, sampling, _WhenAsked(start), report=report)
    finally:
        engine.stop()


def have_written(
    state: State,
    settings: Settings,
    paths: Sequence[Path],
    encoder: Encoder,
    folder: Folder,
) -> None:
    """Have the settings' language model write propositions and dialogs into `folder`.

    Earlier output is kept; only new and changed documents are sent to the model. Raises NoDocuments, SettingsError
    where there is no model, and ModelFailed.
    """
    from synth import Paused, SynthPlan, read_sources, synthesise

    documents = read_sources(
        paths, settings.index.include, settings.index.exclude, lambda name, why: left_out(state, name, why)
    )
    with open_task_runner(settings, state, folder) as runner:
        try:
            facts = synthesise(documents, SynthPlan(), runner, encoder, folder)
        except Paused as paused:
            raise InputError(f"{paused} Run the same command again to go on.") from None
    state.err.print(f"{facts.propositions:,} propositions from {len(documents):,} documents.")


def tell_small(state: State, model: str) -> None:
    """Print that a model of this machine is too small to write dialogs, where its size is known and it is."""
    from server.registry import registered_models

    entry, file = registered_models().get(model), Path(model).expanduser()
    size = sum(part.size for part in entry.files) if entry else file.stat().st_size if file.is_file() else SMALL_BYTES
    if size < SMALL_BYTES:
        state.err.print(
            f"{file.name} is too small for dialogs: models of 1.5 billion parameters or fewer leave every follow-up "
            "complete, so that a rewriter learns nothing from it. Give --model a larger one, such as "
            "qwen3-4b-instruct-2507, or the address of a server (http://…/v1). Propositions are fair; `anaphora synth "
            "--until propositions` makes these alone.",
            style="yellow",
        )


def left_out(state: State, name: str, why: str) -> None:
    """Print that a file is not read."""
    state.err.print(sanitize_line(f"left out {name}: {why}"), style="yellow")


class _WhenAsked:
    """An asker that is made when there is something to ask: a finished run loads no model."""

    def __init__(self, start: Callable[[], ChatAsker]) -> None:
        self._start = start
        self._asker: ChatAsker | None = None

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        if self._asker is None:
            self._asker = self._start()
        self._asker.ask(pending, record)
