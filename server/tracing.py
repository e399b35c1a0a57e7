"""Trace turns: record a turn, make its stored trace when it ends, export its spans; and the metrics for Prometheus.

Spans are begun with `text.recorder`; requests have theirs in `server.api.app`. `server.store` stores traces. Each
service has a registry of metrics of its own, never the global one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

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
        self.turns = Counter("anaphora_turns", "Turns by how they ended.", ["status"], registry=registry)
        self.stage_seconds = Histogram(
            "anaphora_turn_stage_seconds",
            "Seconds of a turn by stage; first_token and total count from its beginning, waiting left out.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.tokens = Counter("anaphora_tokens", "Tokens read and written by the model.", ["kind"], registry=registry)
        self.dropped_citations = Counter(
            "anaphora_citations_dropped", "Markers removed because they cited nothing.", registry=registry
        )
        self.unsupported = Counter(
            "anaphora_unsupported_sentences", "Sentences without support in what they cite.", registry=registry
        )
        self.rewrites = Counter("anaphora_rewrites", "Rewrites by decision.", ["decision"], registry=registry)
        self.errors = Counter("anaphora_errors", "Turns that ended in an error, by code.", ["code"], registry=registry)
        self.store_failures = Counter(
            "anaphora_store_failures", "Turns that could not be stored, such as on a full disk.", registry=registry
        )
        self.running = Gauge("anaphora_turns_running", "Turns that are being answered now.", registry=registry)
        self.waiting = Gauge("anaphora_turns_waiting", "Turns that wait for their place now.", registry=registry)
        self.refused = Counter("anaphora_turns_turned_away", "Turns refused: the queue was full.", registry=registry)
        self.requests = Counter(
            "anaphora_http_requests", "HTTP requests by route and status.", ["route", "status"], registry=registry
        )

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
