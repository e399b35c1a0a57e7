"""Asking: judging, retries, the journal, and what happens when a server or a process goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import APIConnectionError, BadRequestError

from synth.askers import ChatAsker
from synth.tasks import (
    InvalidAnswer,
    Journal,
    ModelFailed,
    Paused,
    RunBusy,
    Sampling,
    Task,
    TaskRunner,
    read_json,
)
from tests.chat_model import ScriptedChatModel

SAMPLING = Sampling("scripted", 0.0, 3)
SCHEMA = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}},
    "required": ["names"],
    "additionalProperties": False,
}


def read_names(data: Any) -> list[str]:
    names = data.get("names")
    if not isinstance(names, list):
        raise InvalidAnswer('It needs a list "names".')
    return names


def task(item: str = "one", **fields: Any) -> Task[list[str]]:
    values = {"mend": None} | fields
    return Task("names", item, "List names.", f"Names of {item}.", SCHEMA, 50, read_names, **values)


Settle = Callable[..., Any]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.jsonl") as opened:
        yield opened


@pytest.fixture
def settle(journal: Journal) -> Settle:
    def run(script: Any, *tasks: Task[Any], **options: Any) -> tuple[list[Any], ScriptedChatModel]:
        model = ScriptedChatModel(script=script)
        report = options.pop("report", lambda _: None)
        attempts = options.pop("attempts", 3)
        with ChatAsker(model, SAMPLING, waits=(0.0,), **options) as asker:
            return TaskRunner(journal, SAMPLING, asker, attempts=attempts, report=report).settle(tasks), model

    return run


def test_a_wrong_answer_is_asked_again_with_the_reason(settle: Settle) -> None:
    answers = iter(['{"name": "Ann"}', '{"names": ["Ann"]}'])
    (outcome,), model = settle(lambda _: next(answers), task())
    assert outcome.value == ["Ann"]
    assert [message.type for message in model.asked[1]] == ["system", "human", "ai", "human"]
    assert 'It needs a list "names".' in model.asked[1][3].content


@pytest.mark.parametrize("content", [True, False])
def test_every_item_leaves_the_calls_that_it_took(settle: Settle, tmp_path: Path, content: bool) -> None:
    def script(messages: Any) -> str:
        return "I would rather not." if "bad" in messages[1].content else '{"names": ["Ann"]}'

    traces = tmp_path / "traces.jsonl"
    settle(script, task("good"), task("bad"), traces=traces, content=content)
    rows = {row["item"]: row["calls"] for row in map(json.loads, traces.read_text("utf-8").splitlines())}
    assert [call["name"] for call in rows["bad"]] == ["names", "ask", "ask", "ask"]
    assert [call["values"].get("before") for call in rows["bad"][1:]] == [None, "invalid", "invalid"]
    root, asked = rows["good"]
    assert asked["parent"] == root["id"]
    assert {"finish": "stop", "temperature": 0.0, "max_tokens": 50}.items() <= asked["values"].items()
    said = (asked["output"], "".join(part["literal"] for part in asked["prompt"]))
    assert said == (('{"names": ["Ann"]}', "List names.Names of good.") if content else (None, ""))


def test_an_item_that_stays_wrong_is_given_up_and_the_others_go_on(settle: Settle) -> None:
    def script(messages: Any) -> str:
        return "I would rather not." if "bad" in messages[1].content else '{"names": []}'

    outcomes, model = settle(script, task("good"), task("bad"), task("fine"))
    assert [outcome.verdict for outcome in outcomes] == ["good", "invalid", "good"]
    assert len(model.asked) == 5


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (("I cannot help with that.", "content_filter"), "refused"),
        (('{"names": ["An', "length"), "truncated"),
    ],
)
def test_a_refused_or_truncated_answer_costs_one_item_and_one_request(
    settle: Settle, reply: tuple[str, str], verdict: str
) -> None:
    def script(messages: Any) -> Any:
        return reply if "bad" in messages[1].content else '{"names": ["Bo"]}'

    outcomes, model = settle(script, task("bad"), task("good"))
    assert [outcome.verdict for outcome in outcomes] == [verdict, "good"]
    assert len(model.asked) == 2


def test_a_truncated_list_keeps_what_is_complete_where_the_task_can_mend_it(settle: Settle) -> None:
    mended = task(mend=lambda data: {"names": data["names"][:-1]})
    (outcome,), _ = settle(lambda _: ('{"names": ["Ann", "Bo', "length"), mended)
    assert (outcome.verdict, outcome.value) == ("mended", ["Ann"])


def test_an_error_about_one_item_costs_that_item(settle: Settle) -> None:
    def script(messages: Any) -> Any:
        return ValueError("too long for the context") if "bad" in messages[1].content else '{"names": []}'

    outcomes, _ = settle(script, task("bad"), task("good"))
    assert [(outcome.verdict, outcome.error) for outcome in outcomes] == [
        ("error", "too long for the context"),
        ("good", ""),
    ]


def test_a_server_that_refuses_schemas_is_asked_without(settle: Settle) -> None:
    request = httpx.Request("POST", "http://model/v1")
    refusal = BadRequestError("no response_format here", response=httpx.Response(400, request=request), body=None)
    answers = iter([refusal, 'Sure! Here you are:\n```json\n{"names": ["Ann",]}\n```', '{"names": []}'])
    outcomes, model = settle(lambda _: next(answers), task("a"), task("b"), concurrency=1)
    assert [outcome.value for outcome in outcomes] == [["Ann"], []]
    assert ["response_format" in options for options in model.options] == [True, False, False]


def test_a_server_that_is_away_for_a_moment_is_asked_again(settle: Settle) -> None:
    away = APIConnectionError(request=httpx.Request("POST", "http://model/v1"))
    answers = iter([away, '{"names": ["Ann"]}'])
    (outcome,), _ = settle(lambda _: next(answers), task())
    assert outcome.value == ["Ann"]


def test_a_server_that_stays_away_ends_the_run_and_loses_nothing(settle: Settle, journal: Journal) -> None:
    def script(messages: Any) -> Any:
        if "second" in messages[1].content:
            return APIConnectionError(request=httpx.Request("POST", "http://model/v1"))
        return '{"names": ["Ann"]}'

    with pytest.raises(ModelFailed, match="run the same command again"):
        settle(script, task("first"), task("second"), concurrency=1)
    outcomes, model = settle(lambda _: '{"names": ["Bo"]}', task("first"), task("second"))
    assert [outcome.value for outcome in outcomes] == [["Ann"], ["Bo"]]
    assert len(model.asked) == 1


def test_time_over_asks_nothing_new(settle: Settle) -> None:
    asked: list[str] = []

    def script(messages: Any) -> str:
        asked.append(messages[1].content)
        return '{"names": []}'

    with pytest.raises(Paused) as paused:
        settle(script, task("a"), task("b"), task("c"), concurrency=1, stop=lambda: bool(asked))
    assert (paused.value.pending, len(asked)) == (2, 1)


def test_so_many_requests_are_out_as_wanted_and_no_more(settle: Settle) -> None:
    out, most, together = list[int](), list[int](), threading.Barrier(3, timeout=90)

    def script(_: Any) -> str:
        out.append(1)
        most.append(len(out))
        together.wait()
        out.pop()
        return '{"names": []}'

    settle(script, *(task(str(number)) for number in range(9)), concurrency=3)
    assert max(most) == 3


def test_the_journal_has_one_owner(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(RunBusy, match="another folder"):
        Journal(tmp_path / "journal.jsonl")


def test_a_torn_line_is_cut_and_its_item_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = json.dumps({"key": "k", "attempt": 0, "step": "s", "item": "i", "text": "x" * 70_000})
    path.write_text(f"{line}\n{line[:40_000]}")
    with Journal(path) as journal:
        assert len(journal.answers("k")) == 1
    assert path.read_text() == f"{line}\n"


KILLED = """
import sys, time
from pathlib import Path
from tests.chat_model import ScriptedChatModel
from tests.synth.test_running import SAMPLING, task
from synth.tasks import Journal, TaskRunner
from synth.askers import ChatAsker

def script(messages):
    time.sleep(0.05)
    print("asked", flush=True)
    return '{"names": ["Ann"]}'

model = ScriptedChatModel(script=script)
with Journal(Path(sys.argv[1])) as journal, ChatAsker(model, SAMPLING, concurrency=2) as asker:
    TaskRunner(journal, SAMPLING, asker).settle([task(str(number)) for number in range(200)])
"""


@pytest.mark.extended
@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.extended), signal.SIGINT])
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "journal.jsonl"
    command = [sys.executable, "-c", KILLED, str(path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root) as process:
        assert process.stdout is not None
        for _ in range(6):
            process.stdout.readline()
        os.kill(process.pid, how)
    with Journal(path) as journal:
        known = {json.loads(line)["key"] for line in path.read_text().splitlines()}
        assert 4 <= len(known) < 200
        model = ScriptedChatModel(script=lambda _: '{"names": ["Bo"]}')
        tasks = [task(str(number)) for number in range(200)]
        with ChatAsker(model, SAMPLING) as asker:
            outcomes = TaskRunner(journal, SAMPLING, asker).settle(tasks)
    assert len(model.asked) == 200 - len(known)
    assert all(outcome.usable for outcome in outcomes)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == len({(line["key"], line["attempt"]) for line in lines}) == 200


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"names": ["Ann"]}', ["Ann"]),
        ('```json\n{"names": ["Ann"]}\n```', ["Ann"]),
        ('Here is the JSON: {"names": ["Ann"]} I hope it helps.', ["Ann"]),
        ("{'names': ['Ann',]}", ["Ann"]),
        ('["Ann", "Bo"]', ["Ann", "Bo"]),
    ],
)
def test_json_is_found_and_repaired(text: str, names: list[str]) -> None:
    assert read_json(text, SCHEMA)["names"] == names
