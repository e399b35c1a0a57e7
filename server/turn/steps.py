"""The steps of a turn: timed, recorded, and kept off the event loop within a limit.

A step is a call below the current one (`text.recorder`). Texts of the user, the documents and the model are in its
inputs and outputs only; labels are names, counts and settings. Keeping and sending them is `server.tracing`'s business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeVar

from server.turn.events import EvidenceEvent
from text.recorder import Call, Label, current

BLOCKING_SECONDS = 30.0
"""Longest opening of a collection, search and rerank, before the turn is given up."""

T = TypeVar("T")


class TurnFailed(Exception):
    """Ends a turn with an error event of this code; its text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def in_thread(call: Callable[[], T], step: Callable[[], str] = lambda: "search") -> T:
    """`call` in a thread. Raises TurnFailed after `BLOCKING_SECONDS`, in the name of the `step` under way."""
    try:
        async with asyncio.timeout(BLOCKING_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError as error:
        raise TurnFailed(
            f"{step()}_timeout",
            f"The {step()} took longer than {BLOCKING_SECONDS:g} s. Try again when less is going on.",
        ) from error


def tell_evidence(step: Call, event: EvidenceEvent) -> None:
    """What was given to read."""
    step.label(passages=len(event.passages), reranked=event.reranked)
    step.output({"passages": event.passages})


class Stopwatch:
    """The times of one turn: of each step, to the first token, in all. Seconds."""

    def __init__(self) -> None:
        self.running = "search"
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def begin(self, name: str) -> RunningStep:
        """A step begins, as a child of what is current."""
        self.running = name
        return RunningStep(self, name)

    def ended(self, name: str, seconds: float) -> None:
        """A step has ended."""
        self._seconds[name] = seconds

    def first_token(self) -> None:
        """Something is shown; only the first time counts."""
        self._seconds.setdefault("first_token", time.perf_counter() - self._began)

    def of(self, *names: str) -> float:
        """Seconds of these steps together, as far as they were taken."""
        return sum(self._seconds.get(name, 0.0) for name in names)

    def all(self) -> dict[str, float]:
        """Seconds by step, `first_token` once there was one, and `total` up to now."""
        return {**self._seconds, "total": time.perf_counter() - self._began}


class RunningStep:
    """A step that has begun. In `with` it is what is current there, and has ended behind it."""

    def __init__(self, watch: Stopwatch, name: str) -> None:
        self._watch = watch
        self.call = current().begin(name)

    def current(self) -> AbstractContextManager[Call]:
        """Within it, calls and requests belong to this step; not around a `yield`."""
        return self.call.current()

    def tell(self, inputs: Mapping[str, object], outputs: Mapping[str, object], labels: Mapping[str, Label]) -> None:
        """What the step was given, what it gave, and what holds no text of anyone's."""
        self.call.inputs(**inputs)
        self.call.output(outputs)
        self.call.label(**labels)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        self.call.end(error)
        self._watch.ended(self.call.name, self.call.elapsed)

    def __enter__(self) -> Self:
        self.call.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.call.__exit__(kind, error, traceback)
        self.end()
