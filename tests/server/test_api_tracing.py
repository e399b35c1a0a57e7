"""The trace of a turn: the caller's where there is one, from the request down to the model's server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

QUESTION = "How long is parental leave?"
COMPLETION = {"model": "docs", "messages": [{"role": "user", "content": QUESTION}]}
CALLER, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def traceparent(trace: str = CALLER, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{CALLERS_SPAN}-{flags}"}


def ask(running: Any, headers: dict[str, str]) -> dict[str, Any]:
    """The stored trace of one turn."""
    with running.client() as client:
        answer = client.post("/v1/chat/completions", json=COMPLETION, headers=headers)
    return running.traced(answer.json()["anaphora"]["turn_id"])


def test_a_turn_joins_the_trace_of_its_caller_and_takes_the_model_along(running: Any, llm: Any) -> None:
    trace = ask(running, traceparent())
    steps = {step["name"]: step for step in trace["steps"]}

    assert trace["trace_id"] == CALLER
    assert list(steps) == ["wait", "rewrite", "search", "evidence", "generate"]
    assert {step["parent"] for step in steps.values()} == {trace["span_id"]}
    assert llm.headers[-1]["traceparent"] == f"00-{CALLER}-{steps['generate']['id']}-01"


def test_at_a_collector_the_turn_stands_below_its_caller(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: Any
) -> None:
    from server.chat import service
    from server.tracing import Tracing

    exporter = InMemorySpanExporter()
    monkeypatch.setattr(service, "open_tracing", lambda _, content: Tracing(content=content, exporter=exporter))
    running = serve(settings_for(llm.url))
    stored = ask(running, traceparent())
    unsampled = ask(running, traceparent("a" * 32, flags="00"))
    running.stop()
    spans = {span.name: span for span in exporter.get_finished_spans() if span.context.trace_id == int(CALLER, 16)}
    turn = spans["turn"]

    assert turn.parent.span_id == int(CALLERS_SPAN, 16)
    assert f"{turn.context.span_id:016x}" == stored["span_id"]
    assert all(spans[step["name"]].parent.span_id == turn.context.span_id for step in stored["steps"])
    # A caller that samples its trace out gets none of it sent; it is stored all the same.
    assert all(span.context.trace_id != int("a" * 32, 16) for span in exporter.get_finished_spans())
    assert unsampled["trace_id"] == "a" * 32
    assert unsampled["steps"][-1]["name"] == "generate"


def test_the_parts_of_the_prompt_join_to_what_the_model_was_sent(running: Any, llm: Any) -> None:
    trace = ask(running, {})
    generate = next(step for step in trace["steps"] if step["name"] == "generate")
    sent = llm.requests[-1]["messages"]
    told: dict[int, str] = {}
    for part in generate["prompt"]:
        told[part["message"]] = told.get(part["message"], "") + part.get("literal", "") + part.get("value", "")

    assert list(told.values()) == [message["content"] for message in sent]
    named = {part["expression"]: part["value"] for part in generate["prompt"] if "expression" in part}
    assert named["question"] == QUESTION
    assert "passages[1].text" in named
    assert '"temperature"' in generate["values"]["parameters"]


def test_two_turns_at_once_do_not_mix(running: Any, llm: Any) -> None:
    llm.pace = 0.05
    callers = [f"{n:032x}" for n in range(1, 5)]
    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(lambda caller: ask(running, traceparent(caller)), callers))

    assert [trace["trace_id"] for trace in traces] == callers
    for trace in traces:
        assert [step["name"] for step in trace["steps"]] == ["wait", "rewrite", "search", "evidence", "generate"]
        assert {step["parent"] for step in trace["steps"]} == {trace["span_id"]}
        generate = trace["steps"][-1]["id"]
        sent = f"00-{trace['trace_id']}-{generate}-01"
        assert [headers["traceparent"] for headers in llm.headers].count(sent) == 1
