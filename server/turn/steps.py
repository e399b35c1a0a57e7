"""The steps of a turn: timed, traced, and kept off the event loop within a limit.

A step is a span of OpenTelemetry below the current one; without an SDK that is a few empty calls. Texts of the user,
the documents and the model are in `input.value` and `output.value` only, and only where content is wanted; the other
attributes are names, counts and settings. Keeping and sending spans is `server.tracing`'s business.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

BLOCKING_SECONDS = 30.0
"""Longest opening of a collection, search and rerank, before the turn is given up."""

Attribute: TypeAlias = str | int | float | bool
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


def set_content(span: Span, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
    """Say what a step was given and what it gave, as JSON."""
    for name, content in (("input", inputs), ("output", outputs)):
        if content and span.is_recording():
            span.set_attribute(f"{name}.value", json.dumps(content, ensure_ascii=False))
            span.set_attribute(f"{name}.mime_type", "application/json")


class Stopwatch:
    """The times of one turn: of each step, to the first token, in all. Seconds.

    With `content` the spans of its steps hold texts.
    """

    def __init__(self, tracer: Tracer | None = None, *, content: bool = False) -> None:
        self.tracer = tracer or trace.get_tracer("anaphora")
        self.content = content
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
        self._watch, self._name = watch, name
        self._span = watch.tracer.start_span(name)
        self._began = time.perf_counter()
        self._inside: AbstractContextManager[Span] | None = None

    @property
    def seconds(self) -> float:
        """Wall time since it began."""
        return time.perf_counter() - self._began

    def current(self) -> AbstractContextManager[Span]:
        """Within it, spans and requests belong to this step; not around a `yield`."""
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def tell(
        self, inputs: Mapping[str, object], outputs: Mapping[str, object], attributes: Mapping[str, Attribute]
    ) -> None:
        """What the step was given, what it gave, and what holds no text of anyone's."""
        if self._span.is_recording():
            self._span.set_attributes({f"anaphora.{name}": value for name, value in attributes.items()})
            if self._watch.content:
                set_content(self._span, inputs, outputs)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        self._span.end()
        self._watch.ended(self._name, self.seconds)

    def __enter__(self) -> Self:
        self._inside = self.current()
        self._inside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inside is not None:
            self._inside.__exit__(None, None, None)
        self.end(error)
