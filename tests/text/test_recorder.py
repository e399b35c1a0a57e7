"""Recording calls: whose child each is, what is kept of it, and that it stays within bounds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
from opentelemetry.context import attach, detach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from text import recorder
from text.recorder import Recording, call, current, trace_headers


async def outer(number: int) -> int:
    with call("outer", number=number):
        await asyncio.sleep(0)
        current().record(number=number)
        return await inner(number) + await asyncio.to_thread(below, number)


async def inner(number: int) -> int:
    with call("inner", number=number):
        await asyncio.sleep(0.001)
        if number % 10 == 3:
            raise LookupError(f"no {number}")
        return number


def below(number: int) -> int:
    with call("below", number=number):
        return -number


def test_two_hundred_calls_at_once_keep_their_parents() -> None:
    recording = Recording("all")

    async def crowd() -> list[int | BaseException]:
        with recording.root:
            return await asyncio.gather(*(outer(n) for n in range(200)), return_exceptions=True)

    results = asyncio.run(crowd())
    root, *calls = recording.calls()
    outers = {each["inputs"]["number"]: each for each in calls if each["name"] == "outer"}

    assert len({each["id"] for each in calls}) == len(calls) == 200 + 200 + 180
    assert all(each["parent"] == root["id"] == recording.root.id for each in outers.values())
    assert all(each["values"] == {"number": number} for number, each in outers.items())
    for each in calls:
        if each["name"] != "outer":
            assert each["parent"] == outers[each["inputs"]["number"]]["id"]
    assert sum(isinstance(result, LookupError) for result in results) == 20
    failed = [each for each in calls if each["error"]]
    assert {each["name"] for each in failed} == {"outer", "inner"}
    assert {each["error"] for each in failed} == {"LookupError"}
    assert {each["message"] for each in failed} == {f"no {n}" for n in range(3, 200, 10)}
    assert all(span.end_time is not None for span in recording.spans)


def test_nothing_is_recorded_where_no_recording_is_under_way() -> None:
    with call("lonely", word="x") as this:
        this.output("y")
        assert current().recording is None
    assert asyncio.run(inner(1)) == 1
    assert trace_headers() == {}


def test_two_recordings_do_not_mix() -> None:
    recordings = [Recording(f"r{n}") for n in range(4)]

    def one(recording: Recording) -> None:
        with recording.root:
            for _ in range(50):
                with call("step"):
                    below(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda recording: copy_context().run(one, recording), recordings))
    assert [len(recording.spans) for recording in recordings] == [101] * 4


@pytest.mark.parametrize("content", [True, False])
def test_words_are_kept_only_where_content_is_wanted(content: bool) -> None:
    recording = Recording("turn", content=content)
    with recording.root, call("ask", question="a secret") as this:
        this.output({"text": "a secret"})
        this.record(said="a secret", pieces=["a secret"], score=0.5)
        this.prompt([("user", "a secret")])
        this.label(model="small")
        this.fail(ValueError("a secret"))

    [_, made] = recording.calls()
    assert ("secret" in str(made)) is content
    assert ("secret" in "".join(span.to_json() for span in recording.spans)) is content
    assert made["error"] == "ValueError"
    assert {"score": 0.5, "model": "small"}.items() <= made["values"].items()


def test_a_recording_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_CALLS", 5)
    monkeypatch.setattr(recorder, "MAX_CHARS", 1000)
    monkeypatch.setattr(recorder, "MAX_TEXT", 300)
    recording = Recording("turn")
    with recording.root:
        for _ in range(8):
            with call("step", text="x" * 5000, many=list(range(5000))):
                pass
    calls = recording.calls()[1:]
    texts = [each["inputs"]["text"] for each in calls]

    assert len(calls) == 5
    assert recording.dropped == 3
    assert sum(map(len, texts)) < 1300
    assert texts[0].endswith("… [4700 characters are not kept]")
    assert len(calls[0]["inputs"]["many"]) == recorder.MAX_ITEMS


def test_what_is_asked_of_others_carries_the_trace_on() -> None:
    caller = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-00", "tracestate": "vendor=1"}
    token = attach(TraceContextTextMapPropagator().extract(caller))
    recording = Recording("turn")
    with recording.root, call("ask") as this:
        headers = trace_headers()
    detach(token)

    assert headers == {"traceparent": f"00-{'ab' * 16}-{this.id}-00", "tracestate": "vendor=1"}


def test_a_thousand_calls_at_once_keep_their_parents() -> None:
    recording = Recording("all")

    async def crowd() -> list[int | BaseException]:
        with recording.root:
            return await asyncio.gather(*(outer(n) for n in range(1000)), return_exceptions=True)

    results = asyncio.run(crowd())
    root, *calls = recording.calls()
    outers = {each["inputs"]["number"]: each for each in calls if each["name"] == "outer"}

    assert len({each["id"] for each in calls}) == len(calls) == 1000 + 1000 + 900
    assert all(each["parent"] == root["id"] == recording.root.id for each in outers.values())
    assert all(each["values"] == {"number": number} for number, each in outers.items())
    for each in calls:
        if each["name"] != "outer":
            assert each["parent"] == outers[each["inputs"]["number"]]["id"]
    assert sum(isinstance(result, LookupError) for result in results) == 100
    failed = [each for each in calls if each["error"]]
    assert {each["name"] for each in failed} == {"outer", "inner"}
    assert {each["error"] for each in failed} == {"LookupError"}
    assert {each["message"] for each in failed} == {f"no {n}" for n in range(3, 1000, 10)}
    assert all(span.end_time is not None for span in recording.spans)
