"""The trace of a turn: begun where the turn is, made of its recording when it has ended, sent to a collector.

The stored `Trace` and the spans for a collector are made of the same recording in one place, `Tracing.end`; spans carry
OpenInference's names. Calls are recorded with `text.recorder`, requests have their spans in `server.api.app`. Storing
traces is left to `server.store`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags, TraceState, get_current_span

from server.store.records import Trace, TraceStep, TurnStatus
from text.recorder import Call, Recording

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

TRACES_PATH = "/v1/traces"
"""Where a collector takes traces over HTTP; added to an endpoint that names no path."""

TURN = "turn"
_OWN = frozenset({"turn_id", "conversation_id", "collection", "engine"})
"""Labels of a turn that are fields of its trace."""


class Tracing:
    """Begins the recordings of turns and ends them. `exporter` receives all of them, in the background and in batches.

    `content` says whether texts are kept. A collector that does not answer costs a warning in the log, never a turn.
    """

    def __init__(self, *, content: bool, exporter: SpanExporter | None = None) -> None:
        self.content = content
        self.exports = exporter is not None
        self._resource = Resource.create({"service.name": "anaphora"})
        # A caller that samples its trace out gets none of it sent.
        self._provider = TracerProvider(sampler=ParentBased(ALWAYS_ON), resource=self._resource, shutdown_on_exit=False)
        self._batches = BatchSpanProcessor(exporter, schedule_delay_millis=5000) if exporter is not None else None
        if self._batches is not None:
            self._provider.add_span_processor(self._batches)
        self.tracer = self._provider.get_tracer("anaphora")
        """Begins the spans of requests."""

    def begin_turn(
        self,
        turn_id: str,
        conversation_id: str | None,
        collection: str,
        question: str,
        request: Mapping[str, object] | None = None,
    ) -> Call:
        """The call that is a turn, below the current span; what is called within it is below it."""
        above = get_current_span().get_span_context()
        if above.is_valid:
            recording = Recording(
                TURN,
                content=self.content,
                trace_id=f"{above.trace_id:032x}",
                caller=f"{above.span_id:016x}",
                flags=above.trace_flags,
                state=above.trace_state.to_header(),
            )
        else:
            recording = Recording(TURN, content=self.content)
        root = recording.root
        root.label(turn_id=turn_id, conversation_id=conversation_id or "", collection=collection)
        root.inputs(question=question, request=request or {})
        return root

    def end(self, turn: Call, status: TurnStatus, answer: str = "") -> Trace:
        """End the turn's recording and return its trace; it is exported if a collector is configured."""
        turn.output(answer)
        turn.end()
        trace = _trace(turn, status)
        recording = turn.recording
        if self._batches is not None and recording is not None and recording.flags & TraceFlags.SAMPLED:
            for span in _spans(trace, recording, self._resource):
                self._batches.on_end(span)
        return trace

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


def _trace(turn: Call, status: TurnStatus) -> Trace:
    recording = turn.recording
    assert recording is not None  # only `begin_turn` makes one
    below = defaultdict[str, list[Call]](list)
    for call in recording.calls:
        below[call.parent].append(call)
    labels: Mapping[str, Any] = turn.labels
    inputs: Mapping[str, Any] = turn.given()
    answer = turn.gave()
    return Trace(
        turn_id=labels["turn_id"],
        conversation_id=labels["conversation_id"] or None,
        collection=labels["collection"],
        collection_version=next(
            (str(call.labels["version"]) for call in recording.calls if "version" in call.labels), ""
        ),
        engine=labels.get("engine", ""),
        status=status,
        created=turn.started,
        seconds=turn.elapsed,
        steps=tuple(_step(call, below) for call in below[turn.id]),
        trace_id=recording.trace_id,
        span_id=turn.id,
        parent_id=turn.parent,
        question=inputs.get("question", ""),
        answer=answer if isinstance(answer, str) else "",
        request=inputs.get("request", {}),
        attributes={name: value for name, value in turn.noted().items() if name not in _OWN},
        dropped=recording.dropped,
    )


def _step(call: Call, below: Mapping[str, Sequence[Call]]) -> TraceStep:
    inputs = call.gave()
    outputs: Any = inputs if isinstance(inputs, dict) else {} if inputs is None else {"result": inputs}
    return TraceStep(
        name=call.name,
        started=call.started,
        seconds=call.elapsed,
        inputs=dict(call.given()),
        outputs=outputs,
        attributes=dict(call.noted()),
        prompt=tuple(dict(part) for part in call.prompted()),
        error=call.error,
        message=call.message,
        source=call.source,
        span_id=call.id,
        parent_id=call.parent,
        calls=tuple(_step(below_call, below) for below_call in below.get(call.id, ())),
    )


_KINDS = {
    TURN: "CHAIN",
    "search": "RETRIEVER",
    "evidence": "RETRIEVER",
    "rerank": "RERANKER",
    "generate": "LLM",
}


def _spans(trace: Trace, recording: Recording, resource: Resource) -> Iterator[ReadableSpan]:
    """The trace as a collector takes it: those within before those around, the turn last."""
    state = TraceState.from_header([recording.state]) if recording.state else TraceState()
    scope = InstrumentationScope("anaphora")

    def context(span_id: str) -> SpanContext:
        flags = TraceFlags(recording.flags)
        return SpanContext(
            int(recording.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags, trace_state=state
        )

    def span(step: TraceStep, attributes: Mapping[str, AttributeValue]) -> ReadableSpan:
        began = int(step.started * 1e9)
        ended = began + int(step.seconds * 1e9)
        exception = {"exception.type": step.error, "exception.message": step.message}
        return ReadableSpan(
            name=step.name,
            context=context(step.span_id),
            parent=context(step.parent_id) if step.parent_id else None,
            resource=resource,
            attributes=attributes,
            events=[Event("exception", exception, ended)] if step.error else (),
            instrumentation_scope=scope,
            status=Status(StatusCode.ERROR, step.error) if step.error else Status(),
            start_time=began,
            end_time=ended,
        )

    def walked(step: TraceStep) -> Iterator[ReadableSpan]:
        for below in step.calls:
            yield from walked(below)
        yield span(step, _attributes(step))

    whole = TraceStep(
        name=TURN,
        started=trace.created,
        seconds=trace.seconds,
        error="failed" if trace.status == "failed" else "",
        span_id=trace.span_id,
        parent_id=trace.parent_id,
    )
    own = {
        "openinference.span.kind": _KINDS[TURN],
        "anaphora.turn_id": trace.turn_id,
        "anaphora.collection": trace.collection,
        "anaphora.collection_version": trace.collection_version,
        "anaphora.engine": trace.engine,
        "anaphora.status": trace.status,
        "session.id": trace.conversation_id,
        "input.value": trace.question,
        "output.value": trace.answer,
        **{f"anaphora.{name}": _plain(value) for name, value in trace.attributes.items()},
    }
    for step in trace.steps:
        yield from walked(step)
    yield span(whole, {name: value for name, value in own.items() if value})


def _attributes(step: TraceStep) -> dict[str, AttributeValue]:
    """A call by OpenInference's names; what it has no name for is `anaphora.…`, as JSON where it is no plain value."""
    from openinference.semconv.trace import MessageAttributes, RerankerAttributes, SpanAttributes

    kind = "LLM" if step.prompt else _KINDS.get(step.name, "CHAIN")
    attributes: dict[str, AttributeValue] = {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind}
    if step.source:
        attributes["code.function.name"] = step.source
    names = {
        "model": SpanAttributes.LLM_MODEL_NAME,
        "prompt_tokens": SpanAttributes.LLM_TOKEN_COUNT_PROMPT,
        "completion_tokens": SpanAttributes.LLM_TOKEN_COUNT_COMPLETION,
        "parameters": SpanAttributes.LLM_INVOCATION_PARAMETERS,
    }
    for name, value in step.attributes.items():
        attributes[names.get(name, f"anaphora.{name}")] = _plain(value)
    filled = {str(part["expression"]): part["value"] for part in step.prompt if "expression" in part}
    if filled:
        attributes[SpanAttributes.LLM_PROMPT_TEMPLATE_VARIABLES] = json.dumps(filled, ensure_ascii=False)
    messages = defaultdict[int, list[Mapping[str, Any]]](list)
    for part in step.prompt:
        messages[int(str(part["message"]))].append(part)
    for n, parts in messages.items():
        prefix = f"{SpanAttributes.LLM_INPUT_MESSAGES}.{n}"
        attributes[f"{prefix}.{MessageAttributes.MESSAGE_ROLE}"] = parts[0]["role"]
        text = "".join(part.get("literal", part.get("value", "")) for part in parts)
        attributes[f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}"] = text
    outputs = dict(step.outputs)
    passages: Any = outputs.get("passages")
    if isinstance(passages, list):
        del outputs["passages"]
        reranker = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS
        list_name = reranker if kind == "RERANKER" else SpanAttributes.RETRIEVAL_DOCUMENTS
        for i, passage in enumerate(passages):
            attributes |= _document(f"{list_name}.{i}", passage)
    for side, content in (("input", step.inputs), ("output", outputs)):
        if content:
            attributes[f"{side}.value"] = json.dumps(content, ensure_ascii=False)
            attributes[f"{side}.mime_type"] = "application/json"
    return attributes


def _plain(value: object) -> str | float:
    return value if isinstance(value, str | float | int) else json.dumps(value, ensure_ascii=False)


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
