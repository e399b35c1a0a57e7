"""The spans of a service: begun with OpenTelemetry where the work is done, kept for each turn, sent to a collector.

`Tracing` gives the tracer. What is stored of a turn (`Trace`) is made of the same spans that a collector receives;
there they carry OpenInference's names. Spans of steps are begun in `server.turn.steps`, those of requests in
`server.api.app`. Storing traces is left to `server.store`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Status, StatusCode, get_current_span

from server.store.records import Trace, TraceStep

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState
    from opentelemetry.trace import Span as ApiSpan
    from opentelemetry.util.types import Attributes, AttributeValue

TRACES_PATH = "/v1/traces"
"""Where a collector takes traces over HTTP; added to an endpoint that names no path."""

TURN = "turn"
_ID = "anaphora.turn_id"


class Tracing:
    """Begins the spans of a service. `exporter` receives all of them, in the background and in batches.

    `content` says whether spans hold texts. A collector that does not answer costs a warning in the log, never a turn.
    """

    def __init__(self, *, content: bool, exporter: SpanExporter | None = None) -> None:
        self.content = content
        self.exports = exporter is not None
        self._turns = _TurnSpans()
        self._provider = TracerProvider(
            sampler=_AsTheCallerSays(), resource=Resource.create({"service.name": "anaphora"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(self._turns)
        if exporter is not None:
            self._provider.add_span_processor(BatchSpanProcessor(_OpenInference(exporter), schedule_delay_millis=5000))
        self.tracer = self._provider.get_tracer("anaphora")

    def begin_turn(self, turn_id: str, conversation_id: str | None, collection: str, question: str) -> ApiSpan:
        """The span of a turn, a child of what is current; the steps of the turn are its children."""
        attributes: dict[str, AttributeValue] = {_ID: turn_id, "anaphora.collection": collection}
        if conversation_id is not None:
            attributes["session.id"] = conversation_id
        if self.content:
            attributes["input.value"] = question
        return self.tracer.start_span(TURN, attributes=attributes)

    def take(self, turn_id: str) -> Trace | None:
        """What happened in a turn whose span has ended; given out once."""
        return self._turns.take(turn_id)

    def close(self) -> None:
        """Send what is queued, and stop; blocks for a few seconds at most where nobody listens."""
        self._provider.force_flush(2000)
        self._provider.shutdown()


def open_tracing(endpoint: str, *, content: bool) -> Tracing:
    """Tracing with export over HTTP to a collector such as `http://127.0.0.1:4318`; without an endpoint, with none."""
    if not endpoint:
        return Tracing(content=content)
    from urllib.parse import urlsplit

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    address = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
    return Tracing(content=content, exporter=OTLPSpanExporter(endpoint=address, timeout=5))


class _AsTheCallerSays(Sampler):
    """Records everything, for the store; a caller that samples its trace out gets none of it sent."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        parent = get_current_span(parent_context).get_span_context()
        unwanted = parent.is_valid and not parent.trace_flags.sampled
        decision = Decision.RECORD_ONLY if unwanted else Decision.RECORD_AND_SAMPLE
        return SamplingResult(decision, attributes, parent.trace_state)

    def get_description(self) -> str:
        return "AsTheCallerSays"


class _TurnSpans(SpanProcessor):
    """Gathers the spans of each turn until its own has ended; spans of nothing else are passed over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn_of: dict[int, Span] = {}
        """The turn's span by the id of every span in it."""
        self._ended: dict[int, list[ReadableSpan]] = {}
        self._finished: dict[str, tuple[ReadableSpan, list[ReadableSpan]]] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Find the turn of a span that begins."""
        with self._lock:
            if _ID in (span.attributes or {}):
                turn: Span | None = span
                self._ended[_id(span)] = []
            else:
                turn = self._turn_of.get(span.parent.span_id) if span.parent else None
            if turn is not None:
                self._turn_of[_id(span)] = turn

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that has ended; one that outlives its turn is lost to it."""
        with self._lock:
            turn = self._turn_of.get(_id(span))
            if turn is None:
                return
            if _id(span) != _id(turn):
                self._ended[_id(turn)].append(span)
                version = (span.attributes or {}).get("anaphora.version")
                if version is not None:
                    turn.set_attribute("anaphora.collection_version", version)
                return
            self._turn_of = {one: of for one, of in self._turn_of.items() if of is not turn}
            self._finished[str((span.attributes or {})[_ID])] = span, self._ended.pop(_id(turn))

    def take(self, turn_id: str) -> Trace | None:
        with self._lock:
            found = self._finished.pop(turn_id, None)
        return _trace(*found) if found else None


def _context(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None  # what the SDK hands out has one
    return context


def _id(span: ReadableSpan) -> int:
    return _context(span).span_id


def _seconds(span: ReadableSpan) -> tuple[float, float]:
    """When it began, in Unix time, and how long it took; 0 where the clock was set back meanwhile."""
    began, ended = span.start_time or 0, span.end_time or 0
    return began / 1e9, max(0, ended - began) / 1e9


def _trace(turn: ReadableSpan, spans: Sequence[ReadableSpan]) -> Trace:
    attributes: Mapping[str, Any] = turn.attributes or {}
    created, seconds = _seconds(turn)
    return Trace(
        turn_id=attributes[_ID],
        conversation_id=attributes.get("session.id"),
        collection=attributes["anaphora.collection"],
        collection_version=attributes.get("anaphora.collection_version", ""),
        engine=attributes.get("anaphora.engine", ""),
        status=attributes.get("anaphora.status", "interrupted"),
        created=created,
        seconds=seconds,
        steps=tuple(_step(span) for span in sorted(spans, key=lambda span: span.start_time or 0)),
        trace_id=f"{_context(turn).trace_id:032x}",
        span_id=f"{_id(turn):016x}",
    )


def _step(span: ReadableSpan) -> TraceStep:
    attributes: Mapping[str, Any] = span.attributes or {}
    started, seconds = _seconds(span)
    own = "anaphora."
    return TraceStep(
        name=span.name,
        started=started,
        seconds=seconds,
        inputs=json.loads(attributes.get("input.value", "{}")),
        outputs=json.loads(attributes.get("output.value", "{}")),
        attributes={name.removeprefix(own): value for name, value in attributes.items() if name.startswith(own)},
        span_id=f"{_id(span):016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else "",
    )


_KINDS = {
    TURN: "CHAIN",
    "search": "RETRIEVER",
    "evidence": "RETRIEVER",
    "rerank": "RERANKER",
    "generate": "LLM",
}

_RENAMED = {
    "anaphora.prompt_tokens": "llm.token_count.prompt",
    "anaphora.completion_tokens": "llm.token_count.completion",
    "anaphora.model": "llm.model_name",
}


class _OpenInference(SpanExporter):
    """Gives the spans of turns OpenInference's names on their way to a collector."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; those of requests as they are."""
        return self._exporter.export([span if span.kind.name == "SERVER" else _named(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _named(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=_attributes(span.name, dict(span.attributes or {})),
        events=span.events,
        links=span.links,
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
    )


def _attributes(name: str, kept: dict[str, Any]) -> dict[str, AttributeValue]:
    from openinference.semconv.trace import MessageAttributes, RerankerAttributes, SpanAttributes

    kind = _KINDS.get(name, "CHAIN")
    attributes = {_RENAMED.get(key, key): value for key, value in kept.items()}
    attributes[SpanAttributes.OPENINFERENCE_SPAN_KIND] = kind
    messages = _json(kept, "input").get("messages")
    if isinstance(messages, list):
        del attributes["input.value"], attributes["input.mime_type"]
        for i, message in enumerate(messages):
            prefix = f"{SpanAttributes.LLM_INPUT_MESSAGES}.{i}"
            attributes[f"{prefix}.{MessageAttributes.MESSAGE_ROLE}"] = message["role"]
            attributes[f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}"] = message["content"]
    passages = _json(kept, "output").get("passages")
    if isinstance(passages, list):
        del attributes["output.value"], attributes["output.mime_type"]
        list_name = (
            RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS if kind == "RERANKER" else SpanAttributes.RETRIEVAL_DOCUMENTS
        )
        for i, passage in enumerate(passages):
            attributes |= _document(f"{list_name}.{i}", passage)
    return attributes


def _json(kept: Mapping[str, Any], side: str) -> dict[str, Any]:
    if kept.get(f"{side}.mime_type") != "application/json":
        return {}
    found: dict[str, Any] = json.loads(kept[f"{side}.value"])
    return found


def _document(prefix: str, passage: Mapping[str, str | int | float]) -> dict[str, AttributeValue]:
    from openinference.semconv.trace import DocumentAttributes

    attributes: dict[str, AttributeValue] = {
        f"{prefix}.{DocumentAttributes.DOCUMENT_ID}": passage.get("id", passage.get("passage_id", "")),
        f"{prefix}.{DocumentAttributes.DOCUMENT_SCORE}": passage["score"],
    }
    if "text" in passage:
        attributes[f"{prefix}.{DocumentAttributes.DOCUMENT_CONTENT}"] = passage["text"]
        attributes[f"{prefix}.{DocumentAttributes.DOCUMENT_METADATA}"] = json.dumps(
            {"document_id": passage["document_id"], "title": passage["title"], "page": passage["page"]}
        )
    return attributes


def failed(span: ApiSpan, code: str) -> None:
    """Mark a span as one that ended badly."""
    span.set_status(Status(StatusCode.ERROR, code))
