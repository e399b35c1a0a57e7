"""The steps of a turn, as they are told to whoever keeps traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Attribute: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Step:
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


Recorder: TypeAlias = Callable[[Step], None]


def forget(_: Step) -> None:
    """The recorder that keeps nothing."""
