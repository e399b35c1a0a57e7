"""The steps of a turn: timed, and told to whoever keeps traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Attribute: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TurnStep:
    """One finished step: `rewrite`, `search`, `rerank` or `generate`.

    `started` is Unix time, `seconds` wall time. Texts of the user, the documents and the model are in
    `inputs` and `outputs` only, so that a trace without content can leave them out; `attributes` are
    names, counts and settings.
    """

    name: str
    started: float
    seconds: float
    inputs: Mapping[str, object] = field(default_factory=dict)
    outputs: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


Recorder: TypeAlias = Callable[[TurnStep], None]


def forget(_: TurnStep) -> None:
    """The recorder that keeps nothing."""


class Stopwatch:
    """The times of one turn: of each step, to the first token, in all. Seconds."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def begin(self, name: str) -> RunningStep:
        """A step begins; it is recorded when it ends."""
        return RunningStep(self, name)

    def end(self, step: TurnStep) -> None:
        """A step has ended."""
        self._seconds[step.name] = step.seconds
        self._record(step)

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
    """A step that has begun."""

    def __init__(self, watch: Stopwatch, name: str) -> None:
        self._watch, self._name = watch, name
        self._began, self._wall = time.perf_counter(), time.time()

    @property
    def seconds(self) -> float:
        """Wall time since it began."""
        return time.perf_counter() - self._began

    def end(
        self, inputs: Mapping[str, object], outputs: Mapping[str, object], attributes: Mapping[str, Attribute]
    ) -> None:
        """It has ended, with this to tell (see `TurnStep`)."""
        self._watch.end(TurnStep(self._name, self._wall, self.seconds, inputs, outputs, attributes))
