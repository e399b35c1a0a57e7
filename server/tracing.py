"""Trace turns: record a turn, make its stored trace when it ends, export its spans; and the metrics for Prometheus.

Spans are begun with `text.recorder`. `server.store` stores traces. Each service has a registry of metrics of its own,
never the global one.

A trace tells its own tree (`server.store.records`); `calls` tells it flat, and `differences` compares two, call by
call.
"""

from __future__ import annotations

import collections
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from server.store.records import Trace, TraceStep, TurnStatus
from text.modules import MissingExtra
from text.recorder import Call, Recording, open_provider

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)


class Metrics:
    """Counters of turns and requests. Labels are names from our own code, never text from outside."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.turns = counter("anaphora_turns", "Turns by how they ended.", ["status"])
        self.stage_seconds = Histogram(
            "anaphora_turn_stage_seconds",
            "Seconds of a turn by stage; first_token and total count from its beginning, waiting left out.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.tokens = counter("anaphora_tokens", "Tokens read and written by the model.", ["kind"])
        self.dropped_citations = counter("anaphora_citations_dropped", "Markers removed because they cited nothing.")
        self.unsupported = counter("anaphora_unsupported_sentences", "Sentences without support in what they cite.")
        self.rewrites = counter("anaphora_rewrites", "Rewrites by decision.", ["decision"])
        self.errors = counter("anaphora_errors", "Turns that ended in an error, by code.", ["code"])
        self.store_failures = counter(
            "anaphora_store_failures", "Turns that could not be stored, such as on a full disk."
        )
        self.running = gauge("anaphora_turns_running", "Turns that are being answered now.")
        self.waiting = gauge("anaphora_turns_waiting", "Turns that wait for their place now.")
        self.refused = counter("anaphora_turns_turned_away", "Turns refused: the queue was full.")
        self.requests = counter("anaphora_http_requests", "HTTP requests by route and status.", ["route", "status"])

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


TRACES_PATH = "/v1/traces"
"""Where a collector takes traces over HTTP; added to an endpoint that names no path."""

TURN = "turn"
_OWN = frozenset({"turn_id", "conversation_id", "collection", "engine"})
"""Labels of a turn that are fields of its trace."""


class Tracing:
    """Begin the recordings of turns and end them. `exporter` receives all spans, in the background and in batches.

    `content` says whether texts are kept. A collector that does not answer costs a warning in the log, never a turn.
    """

    def __init__(self, *, content: bool, exporter: SpanExporter | None = None) -> None:
        self.content = content
        self.exports = exporter is not None
        self._provider = open_provider()
        if exporter is not None:
            self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=5000))
        self.tracer = self._provider.get_tracer("anaphora")
        """Begins the spans of requests and turns."""

    def begin_turn(
        self,
        turn_id: str,
        conversation_id: str | None,
        collection: str,
        question: str,
        request: Mapping[str, object] | None = None,
        content: bool = True,
    ) -> Call:
        """Begin the span of a turn, below the current span; calls within it are below it. `content` may be less."""
        root = Recording(TURN, content=self.content and content, tracer=self.tracer, exports=self.exports).root
        root.label(turn_id=turn_id, conversation_id=conversation_id or "", collection=collection)
        root.span.set_attribute("session.id", conversation_id or "")
        root.inputs(question)
        root.record(request=request or {})
        return root

    def end(self, turn: Call, status: TurnStatus, answer: str = "") -> Trace:
        """End the turn and return its trace."""
        turn.output(answer)
        if status == "failed":
            turn.fail("failed")
        turn.span.set_attribute("anaphora.status", status)
        turn.end()
        return _trace(turn, status)

    def close(self) -> None:
        """Send what is queued, and stop; blocks for a few seconds at most where nobody listens."""
        self._provider.force_flush(2000)
        self._provider.shutdown()


def open_tracing(endpoint: str, *, content: bool) -> Tracing:
    """Return tracing that exports over HTTP to a collector such as `http://127.0.0.1:4318`; nowhere without one.

    Raises MissingExtra.
    """
    if not endpoint:
        return Tracing(content=content)
    from urllib.parse import urlsplit

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise MissingExtra(
            "`trace.otlp_endpoint` needs an exporter; install it with `make install EXTRAS=otlp`."
        ) from error

    address = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
    return Tracing(content=content, exporter=OTLPSpanExporter(endpoint=address, timeout=5))


def _trace(turn: Call, status: TurnStatus) -> Trace:
    recording = turn.recording
    assert recording is not None  # only `begin_turn` makes one
    root, *calls = recording.calls()
    below = defaultdict[str, list[dict[str, Any]]](list)
    for call in calls:
        below[call["parent"]].append(call)
    labels = root["values"]
    return Trace(
        turn_id=labels["turn_id"],
        conversation_id=labels["conversation_id"] or None,
        collection=labels["collection"],
        collection_version=next((str(call["values"]["version"]) for call in calls if "version" in call["values"]), ""),
        engine=labels.get("engine", ""),
        status=status,
        created=root["started"],
        seconds=root["seconds"],
        steps=tuple(_step(call, below) for call in below[root["id"]]),
        trace_id=f"{turn.span.get_span_context().trace_id:032x}",
        span_id=root["id"],
        parent_id=root["parent"] or "",
        question=root["inputs"] or "",
        answer=root["output"] or "",
        request=labels.get("request", {}),
        values={name: value for name, value in labels.items() if name not in _OWN | {"status", "request"}},
        dropped=recording.dropped,
    )


def _step(call: Mapping[str, Any], below: Mapping[str, Sequence[Mapping[str, Any]]]) -> TraceStep:
    return TraceStep(**call, calls=tuple(_step(inner, below) for inner in below.get(call["id"], ())))


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
    seen = collections.Counter[str]()
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
