"""Record what is called within what as OpenTelemetry spans, with OpenInference's attributes.

`call` begins a span below the current one, in whichever task or thread it runs; `Call.record` notes values
at a span. Where no recording is under way they cost next to nothing. Inputs, outputs, prompts and values of
`record` may hold people's words, and are dropped where content is not wanted; `label` is for names and settings, which
are always kept. A recording is bounded: spans beyond the bound are counted, not kept. Storing and exporting spans is
left to `server.tracing`.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md lists the attributes.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from dataclasses import fields, is_dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, ParentBased, StaticSampler
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from text.prompts import parts_of

Json: TypeAlias = "str | float | list[Json] | dict[str, Json] | None"
Label: TypeAlias = str | float

MAX_CALLS = 10_000
MAX_CHARS = 1_000_000
"""Characters of content in one recording."""
MAX_TEXT = 100_000
MAX_ITEMS = 1000
MAX_DEPTH = 8
MAX_ATTRIBUTES = 10_000

OWN = "anaphora."
"""Prefix of attributes that OpenInference has no name for; `anaphora.json.` where the value is JSON."""
_JSON = f"{OWN}json."
_PROMPT = f"{OWN}prompt"
_CODE = "code.function.name"
_KIND = "openinference.span.kind"
_NAMES = {
    "model": "llm.model_name",
    "prompt_tokens": "llm.token_count.prompt",
    "completion_tokens": "llm.token_count.completion",
    "parameters": "llm.invocation_parameters",
}
_OWN_NAMES = {attribute: name for name, attribute in _NAMES.items()}
_KINDS = {"search": "RETRIEVER", "evidence": "RETRIEVER", "rerank": "RERANKER", "generate": "LLM"}
_CALL = otel.create_key("anaphora-call")
_RECORDING = otel.create_key("anaphora-recording")


class RecordingProcessor(SpanProcessor):
    """Keep every span of a turn with the recording that its context names, in the order in which they begin."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        recording = otel.get_value(_RECORDING, parent_context)
        if isinstance(recording, Recording) and isinstance(span, ReadableSpan):
            recording.spans.append(span)


def open_provider() -> TracerProvider:
    """Return a provider whose spans recordings keep, also those of a caller that samples its own trace out."""
    sampler = StaticSampler(Decision.RECORD_ONLY)
    provider = TracerProvider(
        sampler=ParentBased(ALWAYS_ON, remote_parent_not_sampled=sampler, local_parent_not_sampled=sampler),
        resource=Resource.create({"service.name": "anaphora"}),
        span_limits=SpanLimits(max_span_attributes=MAX_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(RecordingProcessor())
    return provider


@functools.cache
def _own_tracer() -> Tracer:
    return open_provider().get_tracer("anaphora")


class Recording:
    """The spans of one turn or item, below `root`, which begins below the current span of OpenTelemetry.

    `tracer` is one of `open_provider`; `exports` adds attributes that only a collector reads.
    """

    def __init__(self, name: str, *, content: bool = True, tracer: Tracer | None = None, exports: bool = False) -> None:
        self.content = content
        self.exports = exports
        self.tracer = tracer or _own_tracer()
        self.spans: list[ReadableSpan] = []
        self.dropped = 0
        """Spans that were too many to be kept."""
        self._chars = 0
        self.root = self.begin(name, otel.get_current())

    def begin(self, name: str, parent: Context, source: str = "") -> Call:
        """Begin a span below `parent`, not yet current; one that keeps nothing beyond `MAX_CALLS`."""
        if len(self.spans) > MAX_CALLS:
            self.dropped += 1
            return Call(INVALID_SPAN, None)
        attributes = {_KIND: _KINDS.get(name, "CHAIN")}
        if source:
            attributes[_CODE] = source
        below = otel.set_value(_RECORDING, self, parent)
        return Call(self.tracer.start_span(name, context=below, attributes=attributes), self)

    def clip(self, text: str) -> str:
        """Return the text, or the part of it that the bounds leave."""
        room = max(0, min(MAX_TEXT, MAX_CHARS - self._chars))
        self._chars += min(len(text), room)
        return text if len(text) <= room else f"{text[:room]}… [{len(text) - room} characters are not kept]"

    def calls(self) -> list[dict[str, Any]]:
        """Return every span as JSON in the order in which they began, the root first.

        Members are `id`, `parent`, `name`, `started` (Unix time), `seconds`, `inputs`, `output`, `values`, `prompt`,
        `error`, `message` and `source`.
        """
        return [_told(span) for span in self.spans]


class Call:
    """A span that has begun. In `with` it is the current one there, and has ended behind it."""

    def __init__(self, span: Span, recording: Recording | None) -> None:
        self.span = span
        self.recording = recording
        """The recording that the span belongs to; None where nothing is recorded."""
        self.seconds: float | None = None
        """Wall time; None until it has ended."""
        self._began = time.perf_counter()
        self._token: Token[Context] | None = None

    @property
    def content(self) -> bool:
        """Whether people's words are kept, so that nobody need gather them otherwise."""
        return self.recording is not None and self.recording.content

    @property
    def id(self) -> str:
        """The span's id in hexadecimal; empty where nothing is recorded."""
        return f"{self.span.get_span_context().span_id:016x}" if self.recording else ""

    def begin(self, name: str, source: str = "") -> Call:
        """Begin a span below this one, not yet current."""
        recording = self.recording
        return recording.begin(name, self.context(), source) if recording else Call(INVALID_SPAN, None)

    def context(self) -> Context:
        """Return the current context with this span as the current one."""
        return otel.set_value(_CALL, self, set_span_in_context(self.span))

    def inputs(self, text: str | None = None, /, **inputs: object) -> None:
        """Record the inputs, or the one text that is the input."""
        if self.content and (inputs or text is not None):
            self._set_side("input", plain(inputs if text is None else text, self._clip))

    def output(self, output: object) -> None:
        """Record the output. Passages in it become OpenInference's documents where spans are exported."""
        if not self.content or self.recording is None:
            return
        value = plain(output, self._clip)
        self._set_side("output", value)
        passages: Any = value.get("passages") if isinstance(value, dict) else None
        if self.recording.exports and isinstance(passages, list):
            reranked = getattr(self.span, "name", "") == "rerank"
            prefix = "reranker.output_documents" if reranked else "retrieval.documents"
            for n, passage in enumerate(passages):
                self._set_document(f"{prefix}.{n}", passage)

    def record(self, **values: object) -> None:
        """Record values that may hold people's words; without content only numbers are kept."""
        if self.recording is None:
            return
        for name, value in values.items():
            if self.content or _is_number(value):
                self._set(name, plain(value, self._clip))

    def label(self, **labels: Label) -> None:
        """Record names, counts and settings: nothing of anyone's words."""
        if self.recording is not None:
            for name, value in labels.items():
                self._set(name, value)

    def tell(self, inputs: Mapping[str, object], outputs: object, labels: Mapping[str, Label]) -> None:
        """Record inputs, output, and labels that hold nobody's words."""
        self.inputs(**inputs)
        self.output(outputs)
        self.label(**labels)

    def prompt(self, messages: Iterable[tuple[str, str]]) -> None:
        """Record the messages a model is sent, as roles and texts, in the parts that `text.prompts` knows of.

        A part is `{message, role, literal}` or `{message, role, value, expression}`.
        """
        if not self.content or self.recording is None:
            return
        recorded, filled = list[dict[str, Json]](), dict[str, str]()
        for n, (role, message) in enumerate(messages):
            parts = [(self._clip(part.text), part.expression) for part in parts_of(message)]
            for text, expression in parts:
                entry = {"value": text, "expression": expression} if expression else {"literal": text}
                recorded.append({"message": n, "role": role, **entry})
            filled.update((expression, text) for text, expression in parts if expression)
            if self.recording.exports:
                prefix, content = f"llm.input_messages.{n}.message", "".join(text for text, _ in parts)
                self.span.set_attributes({f"{prefix}.role": role, f"{prefix}.content": content})
        self.span.set_attribute(_KIND, "LLM")
        self.span.set_attribute(_PROMPT, _dumped(recorded))
        if self.recording.exports and filled:
            self.span.set_attribute("llm.prompt_template.variables", _dumped(filled))

    def fail(self, error: BaseException | str, message: str = "") -> None:
        """Mark the span as failed: by this exception, or with this code and message."""
        code = error if isinstance(error, str) else type(error).__name__
        text = message or (str(error) if isinstance(error, BaseException) else "")
        self.span.set_status(Status(StatusCode.ERROR, code))
        attributes = {"exception.type": code, "exception.message": self._clip(text) if self.content else ""}
        self.span.add_event("exception", attributes)

    def end(self, error: BaseException | None = None, seconds: float | None = None) -> None:
        """End the span, `seconds` after it began if they are given; only the first time counts."""
        if self.seconds is not None:
            return
        self.seconds = time.perf_counter() - self._began if seconds is None else seconds
        if error is not None:
            self.fail(error)
        began = getattr(self.span, "start_time", None)
        self.span.end(None if began is None else began + int(self.seconds * 1e9))

    def _set(self, name: str, value: Json) -> None:
        if isinstance(value, str | bool | int | float):
            self.span.set_attribute(_NAMES.get(name, OWN + name), value)
        else:
            self.span.set_attribute(_JSON + name, _dumped(value))

    def _set_side(self, side: str, value: Json) -> None:
        text, kind = (value, "text/plain") if isinstance(value, str) else (_dumped(value), "application/json")
        self.span.set_attributes({f"{side}.value": text, f"{side}.mime_type": kind})

    def _set_document(self, prefix: str, passage: Mapping[str, Any]) -> None:
        attributes = {"id": passage.get("id", passage.get("passage_id", "")), "score": passage["score"]}
        if "text" in passage:
            metadata = {name: passage[name] for name in ("document_id", "title", "page")}
            attributes |= {"content": passage["text"], "metadata": json.dumps(metadata)}
        self.span.set_attributes({f"{prefix}.document.{name}": value for name, value in attributes.items()})

    def _clip(self, text: str) -> str:
        return self.recording.clip(text) if self.recording else ""

    @contextmanager
    def current(self) -> Iterator[Self]:
        """Within it, calls and requests belong to this call; not around a `yield` of a generator of events."""
        token = otel.attach(self.context())
        try:
            yield self
        finally:
            otel.detach(token)

    def __enter__(self) -> Self:
        self._token = otel.attach(self.context())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            otel.detach(self._token)
            self._token = None
        self.end(error)


_NOTHING = Call(INVALID_SPAN, None)


def current() -> Call:
    """Return the current call; where nothing is recorded, one that keeps nothing."""
    return cast("Call | None", otel.get_value(_CALL)) or _NOTHING


def call(name: str, /, **inputs: object) -> Call:
    """Begin a call below the current one; use it in `with`."""
    above = current()
    if above.recording is None:
        return Call(INVALID_SPAN, None)
    frame = sys._getframe(1)
    call = above.begin(name, f"{frame.f_globals.get('__name__', '')}:{frame.f_lineno}")
    call.inputs(**inputs)
    return call


def trace_headers() -> dict[str, str]:
    """Return the W3C headers of a request that the current call sends; none where nothing is recorded."""
    headers = dict[str, str]()
    if (above := current()).recording is not None:
        TraceContextTextMapPropagator().inject(headers, set_span_in_context(above.span))
    return headers


def plain(value: object, clip: Callable[[str], str] = str, depth: int = MAX_DEPTH) -> Json:
    """Return a value as JSON, its texts cut by `clip`; a value without such a form is named by its type."""
    if isinstance(value, str):
        return clip(str(value))
    if value is None or _is_number(value):
        return cast("Json", value)
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): plain(item, clip, depth - 1) for name, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, clip, depth - 1) for item in list(value)[:MAX_ITEMS]]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), clip, depth - 1) for field in fields(value)}
    dump = getattr(value, "model_dump", None)
    return plain(dump(mode="json"), clip, depth - 1) if dump is not None else f"<{type(value).__name__}>"


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _side(attributes: Mapping[str, Any], side: str, missing: object) -> Any:
    value = attributes.get(f"{side}.value")
    if value is None:
        return missing
    return value if attributes[f"{side}.mime_type"] == "text/plain" else json.loads(value)


def _told(span: ReadableSpan) -> dict[str, Any]:
    """Return a span as JSON, its attributes under the names that they were recorded by."""
    attributes: Mapping[str, Any] = span.attributes or {}
    values = dict[str, Any]()
    for name, value in attributes.items():
        if name in _OWN_NAMES:
            values[_OWN_NAMES[name]] = value
        elif name.startswith(_JSON):
            values[name.removeprefix(_JSON)] = json.loads(value)
        elif name.startswith(OWN) and name != _PROMPT:
            values[name.removeprefix(OWN)] = value
    failed = span.status.status_code is StatusCode.ERROR
    messages = [event.attributes["exception.message"] for event in span.events if event.attributes]
    began, parent = span.start_time or 0, span.parent
    return {
        "id": f"{span.context.span_id:016x}",
        "parent": f"{parent.span_id:016x}" if parent else None,
        "name": span.name,
        "started": began / 1e9,
        "seconds": ((span.end_time or time.time_ns()) - began) / 1e9,
        "inputs": _side(attributes, "input", {}),
        "output": _side(attributes, "output", None),
        "values": values,
        "prompt": json.loads(attributes.get(_PROMPT, "[]")),
        "error": span.status.description or "" if failed else "",
        "message": messages[-1] if failed and messages else "",
        "source": attributes.get(_CODE, ""),
    }
