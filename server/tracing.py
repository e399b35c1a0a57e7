"""What is kept of every turn: its steps with inputs, outputs and seconds; and their export to OpenTelemetry.

`TurnRecorder` collects the steps of one turn and makes a `Trace` of them. `SpanExport` sends traces to a
collector as spans with OpenInference attribute names. Storing traces is left to `server.store`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from server.store.records import Trace, TraceStep, TurnStatus
from server.turn.events import ErrorEvent, EvidenceEvent
from server.turn.steps import TurnStep

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

TRACES_PATH = "/v1/traces"
"""Where a collector takes traces over HTTP; added to an endpoint that names no path."""


class TurnRecorder:
    """Collects the steps of one turn, in the order they ended.

    `content` says whether texts are kept; names, counts and seconds always are.
    """

    def __init__(self, *, content: bool) -> None:
        self.created = time.time()
        self._began = time.perf_counter()
        self._content = content
        self._steps: list[TraceStep] = []

    def step(self, step: TurnStep) -> None:
        """Keep a finished step."""
        self._steps.append(
            TraceStep(
                name=step.name,
                started=step.started,
                seconds=step.seconds,
                inputs=dict(step.inputs) if self._content else {},
                outputs=dict(step.outputs) if self._content else {},
                attributes=dict(step.attributes),
            )
        )

    def admitted(self) -> None:
        """The turn has waited for its place until now."""
        self.step(TurnStep("wait", self.created, time.perf_counter() - self._began))

    def evidence(self, event: EvidenceEvent) -> None:
        """What the answerer was given to read."""
        passages = [passage.model_dump(mode="json") for passage in event.passages]
        attributes = {"passages": len(passages), "reranked": event.reranked}
        self.step(TurnStep("evidence", time.time(), 0.0, outputs={"passages": passages}, attributes=attributes))

    def failed(self, event: ErrorEvent) -> None:
        """Why the turn ended badly; the message is ours and holds no content."""
        attributes = {"error": event.code, "message": event.message}
        self.step(TurnStep("error", time.time(), 0.0, attributes=attributes))

    def trace(
        self,
        *,
        turn_id: str,
        conversation_id: str | None,
        collection: str,
        engine: str,
        status: TurnStatus,
    ) -> Trace:
        """Everything kept until now."""
        versions = [step.attributes["version"] for step in self._steps if "version" in step.attributes]
        return Trace(
            turn_id=turn_id,
            conversation_id=conversation_id,
            collection=collection,
            collection_version=str(versions[0]) if versions else "",
            engine=engine,
            status=status,
            created=self.created,
            seconds=time.perf_counter() - self._began,
            steps=tuple(self._steps),
        )


class SpanExport:
    """Sends traces to an OpenTelemetry collector, in the background and in batches.

    A collector that does not answer costs a warning in the log, never a turn.
    """

    def __init__(self, exporter: SpanExporter, *, batch_seconds: float = 5.0) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": "anaphora"}), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=batch_seconds * 1000))
        self._tracer: Tracer = self._provider.get_tracer("anaphora")

    def send(self, trace: Trace) -> None:
        """Queue a trace: a CHAIN span with a child for each step."""
        from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        kinds = OpenInferenceSpanKindValues
        root_attributes: dict[str, AttributeValue] = {
            SpanAttributes.OPENINFERENCE_SPAN_KIND: kinds.CHAIN.value,
            "anaphora.turn_id": trace.turn_id,
            "anaphora.collection": trace.collection,
            "anaphora.collection_version": trace.collection_version,
            "anaphora.status": trace.status,
        }
        if trace.conversation_id is not None:
            root_attributes[SpanAttributes.SESSION_ID] = trace.conversation_id
        for step in trace.steps:
            if "question" in step.inputs and step.name == "rewrite":
                root_attributes[SpanAttributes.INPUT_VALUE] = str(step.inputs["question"])
            if "answer" in step.outputs:
                root_attributes[SpanAttributes.OUTPUT_VALUE] = str(step.outputs["answer"])
        root = self._tracer.start_span("turn", start_time=_nanoseconds(trace.created), attributes=root_attributes)
        context = set_span_in_context(root)
        for step in trace.steps:
            span = self._tracer.start_span(
                step.name,
                context=context,
                start_time=_nanoseconds(step.started),
                attributes=_attributes(step, trace.engine),
            )
            if "error" in step.attributes:
                span.set_status(Status(StatusCode.ERROR, str(step.attributes["error"])))
            span.end(_nanoseconds(step.started + step.seconds))
        if trace.status == "failed":
            root.set_status(Status(StatusCode.ERROR))
        root.end(_nanoseconds(trace.created + trace.seconds))

    def close(self) -> None:
        """Send what is queued, and stop; blocks for a few seconds at most where nobody listens."""
        self._provider.force_flush(2000)
        self._provider.shutdown()


def open_export(endpoint: str) -> SpanExport:
    """Export over HTTP to a collector such as `http://127.0.0.1:4318`."""
    from urllib.parse import urlsplit

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    address = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
    return SpanExport(OTLPSpanExporter(endpoint=address, timeout=5))


_KINDS = {"search": "RETRIEVER", "evidence": "RETRIEVER", "rerank": "RERANKER", "generate": "LLM"}

_RENAMED = {
    "prompt_tokens": "llm.token_count.prompt",
    "completion_tokens": "llm.token_count.completion",
    "model": "llm.model_name",
}


def _attributes(step: TraceStep, engine: str) -> dict[str, AttributeValue]:
    from openinference.semconv.trace import MessageAttributes, RerankerAttributes, SpanAttributes

    kind = _KINDS.get(step.name, "CHAIN")
    attributes: dict[str, AttributeValue] = {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind}
    if kind == "LLM":
        attributes[SpanAttributes.LLM_MODEL_NAME] = engine
    for name, value in step.attributes.items():
        attributes[_RENAMED.get(name, f"anaphora.{name}")] = value
    messages = step.inputs.get("messages")
    if isinstance(messages, list):
        for i, message in enumerate(messages):
            prefix = f"{SpanAttributes.LLM_INPUT_MESSAGES}.{i}"
            attributes[f"{prefix}.{MessageAttributes.MESSAGE_ROLE}"] = message["role"]
            attributes[f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}"] = message["content"]
    elif step.inputs:
        attributes |= _values(SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, step.inputs)
    passages = step.outputs.get("passages")
    if isinstance(passages, list):
        list_name = (
            RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS if kind == "RERANKER" else SpanAttributes.RETRIEVAL_DOCUMENTS
        )
        for i, passage in enumerate(passages):
            attributes |= _document(f"{list_name}.{i}", passage)
    elif step.outputs:
        attributes |= _values(SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, step.outputs)
    return attributes


def _document(prefix: str, passage: Mapping[str, str | int | float]) -> dict[str, AttributeValue]:
    from openinference.semconv.trace import DocumentAttributes

    attributes: dict[str, AttributeValue] = {
        f"{prefix}.{DocumentAttributes.DOCUMENT_ID}": passage.get("id", passage.get("passage_id", "")),
        f"{prefix}.{DocumentAttributes.DOCUMENT_SCORE}": passage["score"],
    }
    if "text" in passage:
        attributes[f"{prefix}.{DocumentAttributes.DOCUMENT_CONTENT}"] = passage["text"]
        attributes |= {
            f"{prefix}.{DocumentAttributes.DOCUMENT_METADATA}": json.dumps(
                {"document_id": passage["document_id"], "title": passage["title"], "page": passage["page"]}
            )
        }
    return attributes


def _values(value: str, mime_type: str, content: Mapping[str, object]) -> dict[str, AttributeValue]:
    return {value: json.dumps(content, ensure_ascii=False), mime_type: "application/json"}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
