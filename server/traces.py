"""Reading traces: the calls of one in order, and what is different between two.

A trace tells its own tree (`server.store.records`); here it is told flat, and compared call by call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from server.store.records import Trace, TraceStep
from server.turn.events import DoneEvent, Event, EvidenceEvent, RewriteEvent

Status: TypeAlias = Literal["same", "changed", "only left", "only right"]
COMPARED = ("inputs", "output", "values", "prompt", "error", "message")
_NOT_COMPARED = frozenset({"replayed"})


def calls(trace: Trace) -> list[dict[str, Any]]:
    """Every call in order of execution, the turn first, as `Recording.calls` tells them."""
    values = {
        "status": trace.status,
        "engine": trace.engine,
        "collection": trace.collection,
        "version": trace.collection_version,
    }
    turn = TraceStep(
        name="turn",
        started=trace.created,
        seconds=trace.seconds,
        inputs={"question": trace.question, **trace.request} if trace.question else {},
        output={"answer": trace.answer} if trace.question else None,
        values={**values, **trace.values},
        error="failed" if trace.status == "failed" else "",
        id=trace.span_id,
        calls=trace.steps,
    )
    return list(_told(turn, None))


def _told(step: TraceStep, parent: str | None) -> Iterator[dict[str, Any]]:
    """A call, and those within it."""
    yield {name: value for name, value in step if name != "calls"} | {"parent": parent}
    for below in step.calls:
        yield from _told(below, step.id)


@dataclass(frozen=True, slots=True)
class CallDifference:
    """A call of two traces, named by its path. `changed` are the fields that differ; seconds are told, not compared."""

    path: str
    depth: int
    status: Status
    changed: tuple[str, ...]
    left: Mapping[str, Any] | None
    right: Mapping[str, Any] | None


def differences(left: Trace, right: Trace) -> list[CallDifference]:
    """Both traces call by call, in the order of the left one; calls of the same name are paired in their order."""
    first, second = _by_path(left), _by_path(right)
    differences = list[CallDifference]()
    for path in (*first, *(path for path in second if path not in first)):
        before, other = first.get(path), second.get(path)
        changed = tuple(
            name for name in COMPARED if before and other and _compared(before[name]) != _compared(other[name])
        )
        status: Status = "changed" if changed else "same"
        if before is None or other is None:
            status = "only right" if before is None else "only left"
        differences.append(CallDifference(path, path.count("/"), status, changed, before, other))
    return differences


def _by_path(trace: Trace) -> dict[str, dict[str, Any]]:
    """The calls by path, such as `turn/search/bm25` or, the second time, `turn/ask#2`."""
    paths: dict[str, str] = {}
    seen = Counter[str]()
    by_path: dict[str, dict[str, Any]] = {}
    for call in calls(trace):
        above = paths.get(call["parent"] or "", "")
        path = f"{above}/{call['name']}" if above else call["name"]
        seen[path] += 1
        if seen[path] > 1:
            path = f"{path}#{seen[path]}"
        paths[call["id"]] = path
        by_path[path] = call
    return by_path


def _compared(value: object) -> str:
    if isinstance(value, dict):
        value = {name: item for name, item in value.items() if name not in _NOT_COMPARED}
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def grafted(replayed: Trace, record: Trace) -> Trace:
    """A replay's trace, with what came from the record as it was there: its times and the calls within it."""
    steps = {step.name: step for step in record.steps}

    def whole(step: TraceStep) -> TraceStep:
        then = steps.get(step.name)
        if then is None or step.values.get("replayed") != "record":
            return step
        return step.model_copy(update={"calls": then.calls, "started": then.started, "seconds": then.seconds})

    waited = tuple(step for step in record.steps if step.name == "wait")
    return replayed.model_copy(update={"steps": (*waited, *map(whole, replayed.steps))})


def restored(events: Sequence[Event], *recorded: RewriteEvent | EvidenceEvent | DoneEvent | None) -> list[Event]:
    """The events of a replay, each that says what was said then with its seconds of then."""
    then: dict[str, Event] = {event.type: event for event in recorded if event is not None}

    def timed(event: Event) -> Event:
        earlier = then.get(event.type)
        if earlier is None:
            return event
        same = event.model_dump(exclude={"seconds"}) == earlier.model_dump(exclude={"seconds"})
        return earlier if same else event

    return [timed(event) for event in events]
