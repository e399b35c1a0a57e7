"""Asking the settings' language model many things from the command line: its engine, and the progress shown."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.settings import Settings
    from synth.running.live import ChatAsker, Structured
    from synth.running.settling import Asker, Pending, Record
    from synth.running.tasks import Sampling, TaskProgress

REMOTE_CONCURRENCY = 16
"""Requests at once to a server, unless said otherwise."""
ANSWER_SECONDS = 900.0
"""Longest wait for a piece of an answer."""


@contextmanager
def open_asker(
    settings: Settings,
    state: State,
    *,
    temperature: float,
    seed: int,
    concurrency: int = 0,
    structured: Structured = "auto",
    stop: Callable[[], bool] | None = None,
) -> Iterator[tuple[Asker, Sampling]]:
    """The settings' language model, to be asked; its engine starts with the first question and ends with the context.

    Raises SettingsError where the settings name no model.
    """
    from cli.state import SettingsError
    from server.engines import LocalEngine, NoEngine, open_engine
    from synth.running.tasks import Sampling

    llm = settings.llm
    # Whole answers are waited for here, and several requests share the local engine.
    patient = llm.model_copy(update={"first_token_seconds": max(llm.first_token_seconds, ANSWER_SECONDS)})
    engine = open_engine(settings.model_copy(update={"llm": patient}))
    if isinstance(engine, NoEngine):
        raise SettingsError("Making propositions and dialogs needs a language model, but llm.model is `none`.")
    here = isinstance(engine, LocalEngine)
    try:
        name = Path(llm.model).name if here else llm.remote_name
        if not name:
            engine.start()
            name = str(getattr(engine.chat_model(), "model_name", engine.name))
        sampling = Sampling(name, temperature, seed)
        at_once = concurrency or (llm.parallel if here else REMOTE_CONCURRENCY)
        with ExitStack() as stack:

            def start() -> ChatAsker:
                from cli.resources import fetch_models
                from synth.running.live import ChatAsker

                fetch_models(settings, state, encoder=False, reranker=False, llm=True)
                state.err.print("starting the language model")
                engine.start()
                model = engine.chat_model()
                assert model is not None, "only NoEngine has none"
                asker = ChatAsker(model, sampling, concurrency=at_once, structured=structured, stop=stop)
                return stack.enter_context(asker)

            yield _WhenAsked(start), sampling
    finally:
        engine.stop()


class _WhenAsked:
    """An asker that is made when there is something to ask: a finished run loads no model."""

    def __init__(self, start: Callable[[], ChatAsker]) -> None:
        self._start = start
        self._asker: ChatAsker | None = None

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        if self._asker is None:
            self._asker = self._start()
        self._asker.ask(pending, record)


@contextmanager
def progress(state: State) -> Iterator[Callable[[TaskProgress], None]]:
    """A callback that draws a bar for each step: items, failures, tokens, rate, time left; lines off a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    if not state.err.is_terminal:
        yield _lines(state)
        return
    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}", style="dim"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=state.err,
    ) as bars:
        tasks: dict[str, tuple[Any, _Rate]] = {}

        def draw(now: TaskProgress) -> None:
            if now.step not in tasks:
                tasks[now.step] = (bars.add_task(now.step, total=now.total, told=""), _Rate(now.done))
            task, rate = tasks[now.step]
            bars.update(task, completed=now.done, total=now.total, told=f"{_counted(now)}, {rate.told(now)}")

        yield draw


class _Rate:
    """Items and tokens a second since the step began here."""

    def __init__(self, done: int) -> None:
        self._began = time.monotonic()
        self._before = done

    def told(self, now: TaskProgress) -> str:
        seconds = max(time.monotonic() - self._began, 0.001)
        return f"{60 * (now.done - self._before) / seconds:.1f} items/min, {now.tokens_out / seconds:.0f} tokens/s"

    def left(self, now: TaskProgress) -> str:
        """Minutes until the step is done."""
        done = now.done - self._before
        seconds = (time.monotonic() - self._began) * (now.total - now.done) / done if done else 0
        return f"{seconds / 60:.0f} min left"


def _lines(state: State) -> Callable[[TaskProgress], None]:
    told: dict[str, tuple[_Rate, int]] = {}

    def line(now: TaskProgress) -> None:
        rate, percent = told.setdefault(now.step, (_Rate(now.done), -1))
        reached = 100 * now.done // max(1, now.total)
        if reached >= percent + 5 or (now.done == now.total and reached > percent):
            told[now.step] = (rate, reached)
            state.err.print(
                f"{now.step}: {now.done} of {now.total}, {_counted(now)}, {rate.told(now)}, {rate.left(now)}",
            )

    return line


def _counted(now: TaskProgress) -> str:
    failed = f"{now.failed} failed, " if now.failed else ""
    return f"{failed}{now.tokens_in:,} + {now.tokens_out:,} tokens"
