"""What an operator sees: health, readiness, metrics, spans at a collector."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http_server import FakeHandler, serving

COMPLETION = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}


def test_the_server_is_alive_before_it_is_ready(running: Any) -> None:
    with running.client() as client:
        assert client.get("/health").json() == {"status": "ok"}
        waiting = client.get("/ready")
        assert waiting.status_code == 503
        assert set(waiting.json()["waiting_for"]) == {"the language model", "the collection docs"}
        running.call(running.service.core.warm())
        ready = client.get("/ready")
        assert ready.status_code == 200
        assert ready.json()["engine"].startswith("openai:fake")


def test_turns_are_counted(running: Any, llm: Any) -> None:
    llm.pieces = ["Parental leave lasts ten weeks. [1] ", "Elephants are grey animals. [9]"]
    with running.client() as client:
        client.post("/v1/chat/completions", json=COMPLETION)
        llm.die_after = 0
        client.post("/v1/chat/completions", json=COMPLETION)
        client.get("/v1/nothing")
        text = client.get("/metrics").text
        found = client.get("/v1/statistics?days=1").json()
    for line in (
        'anaphora_turns_total{status="answered"} 1.0',
        'anaphora_turns_total{status="failed"} 1.0',
        'anaphora_turn_stage_seconds_count{stage="first_token"} 1.0',
        'anaphora_tokens_total{kind="completion"} 7.0',
        "anaphora_citations_dropped_total 1.0",
        "anaphora_unsupported_sentences_total 1.0",
        'anaphora_rewrites_total{decision="keep"} 2.0',
        'anaphora_errors_total{code="llm_unreachable"} 1.0',
        'anaphora_http_requests_total{route="/v1/chat/completions",status="200"} 1.0',
        "anaphora_turns_waiting 0.0",
    ):
        assert line in text
    (day,) = found["days"]
    counted = {"turns": 2, "failed": 1, "refused": 0, "rated_down": 0, "sentences": 2, "unsupported": 1}
    assert counted.items() <= day.items()
    assert {stage["stage"]: stage["turns"] for stage in found["stages"]}["turn"] == 2


def test_what_serves_is_changed_only_by_a_name(running: Any) -> None:
    with running.client() as operator:
        assert operator.post("/v1/runs/promote", json={}).status_code == 400
        assert operator.post("/v1/runs/promote", json={"name": "none"}).status_code == 404
        nothing_before = operator.post("/v1/runs/promote", json={"name": ""})
        assert nothing_before.status_code == 409, nothing_before.text


@pytest.fixture
def collector() -> Any:
    """A collector on a real port; `received` holds the traces posted to it."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received: list[ExportTraceServiceRequest] = []

    class Handler(FakeHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                received.append(ExportTraceServiceRequest.FromString(body))
            self.answer(200)

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}", received


def test_a_collector_receives_the_steps_of_a_turn(serve: Any, settings_for: Any, llm: Any, collector: Any) -> None:
    endpoint, received = collector
    running = serve(settings_for(llm.url, trace={"otlp_endpoint": endpoint}))
    with running.client() as client:
        conversation = client.post("/v1/conversations", json={}).json()["id"]
        client.post(f"/v1/conversations/{conversation}/turns", json={"question": "How long is parental leave?"})
    running.stop()
    spans = {
        span.name: {
            attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in span.attributes
        }
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert spans["turn"]["openinference.span.kind"] == "CHAIN"
    assert spans["turn"]["session.id"] == conversation
    assert spans["turn"]["input.value"] == "How long is parental leave?"
    assert spans["turn"]["output.value"] == "Parental leave lasts ten weeks. [1]"
    assert spans["evidence"]["openinference.span.kind"] == "RETRIEVER"
    assert "ten weeks" in str(spans["evidence"]["retrieval.documents.0.document.content"])
    assert spans["generate"]["openinference.span.kind"] == "LLM"
    assert spans["generate"]["llm.token_count.completion"] == 7
    assert spans["generate"]["llm.model_name"] == "openai:fake@127.0.0.1"
    assert spans["generate"]["llm.input_messages.0.message.role"]


@pytest.mark.extended
def test_a_collector_that_is_away_costs_no_answer(serve: Any, settings_for: Any, llm: Any) -> None:
    running = serve(settings_for(llm.url, trace={"otlp_endpoint": "http://127.0.0.1:9"}))
    with running.client() as client:
        assert client.post("/v1/chat/completions", json=COMPLETION).status_code == 200


def test_spans_without_content_hold_no_text() -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from server.tracing import Tracing
    from server.turn.events import Stopwatch

    exporter = InMemorySpanExporter()
    tracing = Tracing(content=False, exporter=exporter)
    watch = Stopwatch()
    with tracing.begin_turn("t", None, "docs", "a secret", {"search_for": "a secret"}) as turn:
        with watch.begin("rewrite") as step:
            step.tell({"question": "a secret"}, {"text": "a secret"}, {"decision": "keep"})
        with watch.begin("generate") as step:
            step.prompt([("user", "a secret")])
            step.record(said="a secret", beliefs=["a secret"])
            step.tell({"inputs": "a secret"}, {"answer": "a secret"}, {"prompt_tokens": 3})
            step.fail(ValueError("a secret"))
    kept = tracing.end(turn, "answered", "a secret")
    tracing.close()
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {"turn", "rewrite", "generate"}
    assert "secret" not in "".join(span.to_json() for span in spans)
    root = next(span for span in spans if span.name == "turn")
    assert all(span.parent.span_id == root.context.span_id for span in spans if span.parent is not None)
    assert "secret" not in kept.model_dump_json()
    assert [step.values for step in kept.steps] == [{"decision": "keep"}, {"prompt_tokens": 3}]


def test_every_reference_in_the_description_of_the_api_resolves(running: Any) -> None:
    with running.client() as client:
        description = client.get("/openapi.json").json()

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            node = list(node.values())
        if isinstance(node, list):
            for part in node:
                yield from references(part)

    found = set(references(description))
    assert len(found) > 20
    for reference in found:
        place = description
        assert reference.startswith("#/"), reference
        for step in reference.removeprefix("#/").split("/"):
            assert step in place, f"{reference} does not resolve"
            place = place[step]
