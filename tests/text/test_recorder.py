"""Recording calls: whose child each is, what is kept of it, and that it stays within bounds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from text import recorder
from text.recorder import Recording, call, current, record, recorded, trace_headers


@recorded
async def outer(number: int) -> int:
    await asyncio.sleep(0)
    record(number=number)
    return await inner(number) + await asyncio.to_thread(below, number)


@recorded
async def inner(number: int) -> int:
    await asyncio.sleep(0.001)
    if number % 10 == 3:
        raise LookupError(f"no {number}")
    return number


@recorded
def below(number: int) -> int:
    return -number


def test_a_thousand_calls_at_once_keep_their_parents() -> None:
    recording = Recording("all")

    async def crowd() -> list[int | BaseException]:
        with recording.root:
            return await asyncio.gather(*(outer(n) for n in range(1000)), return_exceptions=True)

    results = asyncio.run(crowd())
    calls = {one.id: one for one in recording.calls}
    outers = {one.given()["number"]: one for one in recording.calls if one.name == "outer"}

    assert len(calls) == len(recording.calls) == 1000 + 1000 + 900
    assert all(one.parent == recording.root.id for one in outers.values())
    assert all(one.noted() == {"number": number} for number, one in outers.items())
    for one in recording.calls:
        if one.name != "outer":
            assert one.parent == outers[one.given()["number"]].id
    assert sum(isinstance(result, LookupError) for result in results) == 100
    failed = [one for one in recording.calls if one.error]
    assert {one.name for one in failed} == {"outer", "inner"}
    assert {one.message for one in failed} == {f"no {n}" for n in range(3, 1000, 10)}
    assert all(one.seconds is not None and one.started >= recording.root.started for one in recording.calls)


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
    assert [len(recording.calls) for recording in recordings] == [100] * 4


@pytest.mark.parametrize("content", [True, False])
def test_words_are_kept_only_where_content_is_wanted(content: bool) -> None:
    recording = Recording("turn", content=content)
    with recording.root, call("ask", question="a secret") as this:
        this.output({"text": "a secret"})
        this.record(said="a secret", pieces=["a secret"], score=0.5)
        this.prompt([("user", "a secret")])
        this.label(model="small")
        this.fail(ValueError("a secret"))

    [made] = recording.calls
    kept = str((made.given(), made.gave(), made.noted(), made.prompted(), made.message))
    assert ("secret" in kept) is content
    assert made.error == "ValueError"
    assert {"score": 0.5, "model": "small"}.items() <= made.noted().items()


def test_a_recording_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_CALLS", 5)
    monkeypatch.setattr(recorder, "MAX_CHARS", 1000)
    monkeypatch.setattr(recorder, "MAX_TEXT", 300)
    recording = Recording("turn")
    with recording.root:
        for _ in range(8):
            with call("step", text="x" * 5000, many=list(range(5000))):
                pass
    texts = [str(one.given()["text"]) for one in recording.calls]

    assert len(recording.calls) == 5
    assert recording.dropped == 3
    assert sum(map(len, texts)) < 1300
    assert texts[0].endswith("… [4700 characters are not kept]")
    assert len(recording.calls[0].given()["many"]) == recorder.MAX_ITEMS  # type: ignore[arg-type]


def test_what_is_asked_of_others_carries_the_trace_on() -> None:
    recording = Recording("turn", trace_id="ab" * 16, flags=0, state="vendor=1")
    with recording.root, call("ask") as this:
        headers = trace_headers()

    assert headers == {"traceparent": f"00-{'ab' * 16}-{this.id}-00", "tracestate": "vendor=1"}
