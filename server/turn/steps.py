"""The steps of a turn: timed, recorded, and kept off the event loop within a limit.

A step is a call below the current one (`text.recorder`). Texts of the user, the documents and the model are in its
inputs and outputs only; labels are names, counts and settings. Keeping and sending them is `server.tracing`'s business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

from server.turn.events import EvidenceEvent
from text.recorder import Call, current

BLOCKING_SECONDS = 30.0
"""Longest opening of a collection, search and rerank, before the turn is given up."""

T = TypeVar("T")


class TurnFailed(Exception):
    """Ends a turn with an error event of this code; its text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def run_blocking(call: Callable[[], T], step: Callable[[], str] = lambda: "search") -> T:
    """`call` in a thread. Raises TurnFailed after `BLOCKING_SECONDS`, in the name of the `step` under way."""
    try:
        async with asyncio.timeout(BLOCKING_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError as error:
        raise TurnFailed(
            f"{step()}_timeout",
            f"The {step()} took longer than {BLOCKING_SECONDS:g} s. Try again when less is going on.",
        ) from error


def within(seconds: float, call: Callable[[], T]) -> T:
    """`call` in a thread of its own, waited for so long; raises TimeoutError, and leaves it to itself. Blocks."""
    answer = Future[T]()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            answer.set_exception(error)

    Thread(target=copy_context().run, args=(work,), name="within", daemon=True).start()
    return answer.result(seconds)


def tell_evidence(step: Call, event: EvidenceEvent) -> None:
    """Record the evidence given to the model."""
    step.label(passages=len(event.passages), reranked=event.reranked)
    step.output({"passages": event.passages})


class Stopwatch:
    """The times of one turn: of each step, to the first token, in all. Seconds."""

    def __init__(self) -> None:
        self.running = "search"
        self._began = time.perf_counter()
        self._steps: dict[str, Call] = {}
        self._first_token: float | None = None

    def begin(self, name: str) -> Call:
        """A step begins, as a child of what is current. In `with` it is what is current there, and has ended behind."""
        self.running = name
        self._steps[name] = current().begin(name)
        return self._steps[name]

    def first_token(self) -> None:
        """Something is shown; only the first time counts."""
        if self._first_token is None:
            self._first_token = time.perf_counter() - self._began

    def of(self, *names: str) -> float:
        """Seconds of these steps together, as far as they were taken."""
        return sum(seconds for name, seconds in self.all().items() if name in names)

    def all(self) -> dict[str, float]:
        """Seconds by step, `first_token` once there was one, and `total` up to now."""
        ended = {name: step.seconds for name, step in self._steps.items() if step.seconds is not None}
        seconds = {} if self._first_token is None else {"first_token": self._first_token}
        return {**ended, **seconds, "total": time.perf_counter() - self._began}
