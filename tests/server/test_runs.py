"""Runs started by the server: what may be started, and that a command is stopped, resumed and outlives nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from server.processes import python_command
from server.runs import commands
from server.runs.commands import LOG, CommandBusy, CommandRunner, child_environment
from server.runs.plans import FOLDERS, PlanError, PlannedRun, plans
from server.runs.reading import RunReader, read_record
from server.runs.records import CommandRecord, RunState
from server.settings import LLMSettings, RetrievalSettings, Settings
from server.store import Runner
from tests.stand_in_command import stand_in


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and commands that are a small program in place of ours."""
    stand_in(monkeypatch)
    return tmp_path / "home"


@pytest.fixture
def runner(home: Path) -> Iterator[CommandRunner]:
    mark = Runner(home / "run")
    runner = CommandRunner(Settings(home=home), mark)
    yield runner
    runner.close()
    mark.close()


def planned(home: Path, name: str = "first", *more: str) -> PlannedRun:
    folder = home / "synth" / name
    return PlannedRun("synth", "synth", folder, {"windows": "2"}, ("synth", "make", f"--out={folder}", *more))


def reaches(home: Path, runner: CommandRunner, state: RunState, name: str = "first") -> None:
    reader, until = RunReader(home, runner), time.monotonic() + 60
    while (found := reader.detail("synth", name)) is None or found.state != state:
        assert time.monotonic() < until, found
        time.sleep(0.01)


def said(folder: Path, words: str) -> None:
    until = time.monotonic() + 60
    while words not in (folder / LOG).read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_run_is_watched_stopped_and_resumed(home: Path, runner: CommandRunner) -> None:
    first = planned(home)
    runner.start(first, "key:me")
    said(first.folder, "dev loss")
    run = RunReader(home, runner).detail("synth", "first")
    assert run is not None
    assert (run.state, run.doing, run.done, run.total) == ("running", "training", 20, 40)
    assert {curve.name: curve.points for curve in run.curves} == {
        "pairs: loss": ((10, 1.25), (20, 0.75)),
        "pairs: dev loss": ((20, 0.9),),
    }
    assert (run.who, run.fields, run.resumable) == ("key:me", {"windows": "2"}, False)
    with pytest.raises(CommandBusy, match=r"first \(synth\) is running"):
        runner.start(planned(home, "second"), "key:me")
    assert runner.stop(first.folder)
    reaches(home, runner, "stopped")
    assert not runner.stop(first.folder)
    runner.start(first, "key:other")
    reaches(home, runner, "done")
    assert RunReader(home, runner).listing()[0].resumable is False


def test_a_run_that_fails_says_why(home: Path, runner: CommandRunner) -> None:
    first = planned(home, "first", "--seed=13")
    first.folder.mkdir(parents=True)
    (first.folder / "begun").touch()
    runner.start(first, "key:me")
    reaches(home, runner, "failed")
    (run,) = RunReader(home, runner).listing()
    assert (run.problem, run.resumable) == ("The model <b>failed</b>.", True)


def test_a_run_ends_with_its_server_and_is_listed_as_interrupted_by_the_next(home: Path) -> None:
    mark = Runner(home / "run")
    runner = CommandRunner(Settings(home=home), mark)
    first = planned(home)
    runner.start(first, "key:me")
    said(first.folder, "dev loss")
    runner.close()
    mark.close()
    said(first.folder, "Stopped.")
    next_mark = Runner(home / "run")
    after = CommandRunner(Settings(home=home), next_mark)
    reaches(home, after, "interrupted")
    after.start(first, "key:me")
    reaches(home, after, "done")
    after.close()
    next_mark.close()


def test_a_command_ends_when_its_server_is_killed(home: Path, runner: CommandRunner) -> None:
    first = planned(home)
    runner.start(first, "key:me")
    said(first.folder, "dev loss")
    _, process, _ = runner._running[first.folder]
    assert process.stdin is not None
    process.stdin.close()
    said(first.folder, "Stopped.")


def test_a_command_has_the_settings_of_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "none")
    llm = LLMSettings(model="http://127.0.0.1:9", api_key="sesame", answer_tokens=77)
    settings = Settings(home=home, llm=llm, retrieval=RetrievalSettings(rerank="never"))
    for name in [name for name in os.environ if name.startswith("ANAPHORA_")]:
        monkeypatch.delenv(name)
    for name, value in child_environment(settings).items():
        if name.startswith("ANAPHORA_"):
            monkeypatch.setenv(name, value)
    there = Settings(home=home)
    assert there.llm == llm
    assert (there.retrieval, there.index, there.rewriter) == (settings.retrieval, settings.index, settings.rewriter)


Plan = Callable[[str, str, dict[str, str]], PlannedRun]


@pytest.fixture
def offered(tmp_path: Path) -> Plan:
    (tmp_path / "synth" / "made").mkdir(parents=True)
    (tmp_path / "synth" / "made" / "dialogs.train.jsonl").touch()
    (tmp_path / "data").mkdir()
    known = plans(tmp_path, {"docs": [tmp_path / "a page", tmp_path / "uploads"]})
    return lambda command, name, values: known[command].run(tmp_path, name, values)


def test_arguments_are_made_of_fields_alone(offered: Plan, tmp_path: Path) -> None:
    made = offered("synth", "", {"collection": "docs", "windows": "3"})
    assert made.folder.parent == tmp_path / FOLDERS["synth"]
    assert made.folder.name.startswith("docs-2")
    assert made.arguments[:4] == ("synth", "make", str(tmp_path / "a page"), str(tmp_path / "uploads"))
    assert {"--windows=3", "--list-size=30", f"--out={made.folder}"} <= set(made.arguments)
    reranker = offered("train", "mine", {"recipe": "reranker", "data": "data"})
    assert (reranker.group, reranker.folder) == ("rerankers", tmp_path / "rerankers" / "mine")
    measured = offered("eval", "one", {"set": "synth/made", "measure": "answers"})
    assert measured.arguments[:3] == ("eval", "answers", f"--sets=synth:{tmp_path / 'synth' / 'made'}")
    adapted = offered("adapt", "one", {"collection": "docs", "learn": "made"})
    assert {"--collection=docs", "--name=one", "--no-promote"} <= set(adapted.arguments)
    reviewed = offered("adapt", "one", {"collection": "docs", "learn": "reviews"})
    assert "--from=review" in reviewed.arguments


@pytest.mark.parametrize(
    ("command", "values", "why"),
    [
        ("synth", {"collection": "docs; rm -rf /"}, "collection is one of docs"),
        ("synth", {"windows": "-1"}, "whole number from 0"),
        ("synth", {"windows": "³"}, "whole number from 0"),
        ("synth", {"windows": "1 --model=x"}, "whole number from 0"),
        ("synth", {"model": "x"}, "no field 'model'"),
        ("train", {"recipe": "../../evil.toml"}, "recipe is one of"),
        ("eval", {"set": "synth:/etc"}, "set is one of"),
    ],
)
def test_nothing_else_can_be_started(offered: Plan, command: str, values: dict[str, str], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        offered(command, "", values)


def test_a_command_that_lacks_what_it_needs_says_so(tmp_path: Path) -> None:
    empty = plans(tmp_path, {})
    assert [name for name, plan in empty.items() if plan.shown().missing] == [
        "synth",
        "train",
        "adapt",
        "eval",
        "diagnose",
    ]
    with pytest.raises(PlanError, match="Add documents first"):
        empty["synth"].run(tmp_path, "", {})


def test_runs_of_a_terminal_are_read_from_their_files(home: Path, runner: CommandRunner) -> None:
    def write(place: str, value: object) -> None:
        path = home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    log = [{"step": 5, "loss": 2.0}, {"step": 5, "eval_loss": 1.5}, {"step": 9, "loss": 1.0}]
    write("rewriters/docs/stages/pairs/checkpoint-9/trainer_state.json", {"global_step": 9, "log_history": log})
    change = {"group": "all", "measure": "AP", "before": 0.5, "after": 0.625, "p": 0.01}
    write("adapt/docs/state.json", {"wanted": {}, "done": {"evaluate": {"changes": [change], "reason": "better"}}})
    write("eval/runs/one/run.json", {"kind": "retrieval", "settings": {"llm": {"model": "secret"}}})
    write("eval/runs/one/metrics.json", {"metrics": [{"set": "s", "part": "all", "measure": "AP", "mean": 0.25}]})
    write("eval/runs/damaged/run.json", [1])
    (home / "rewriters" / "not a name").mkdir()
    reader = RunReader(home, runner)
    assert {(run.group, run.name, run.state) for run in reader.listing()} == {
        ("rewriters", "docs", "unfinished"),
        ("adapt", "docs", "done"),
        ("eval", "one", "done"),
        ("eval", "damaged", "done"),
    }
    trained = reader.detail("rewriters", "docs")
    assert trained is not None
    assert {curve.name: curve.points for curve in trained.curves} == {
        "pairs: loss": ((5, 2.0), (9, 1.0)),
        "pairs: dev loss": ((5, 1.5),),
    }
    assert [table.rows for table in trained.tables] == [(("all", "AP", "0.500", "0.625", "0.010"),)]
    measured = reader.detail("eval", "one")
    assert measured is not None
    assert measured.figures == {"kind": "retrieval"}
    assert measured.tables[0].rows == (("s", "AP", "0.250"),)
    assert reader.detail("eval", "../runs/one") is None
    assert read_record(home / "adapt" / "docs") is None


def test_what_the_record_says_is_read_strictly(tmp_path: Path) -> None:
    (tmp_path / "command.json").write_text('{"command": "rm"}')
    assert read_record(tmp_path) is None
    with pytest.raises(ValidationError):
        CommandRecord.model_validate_json('{"command": "rm"}')


def test_a_child_of_the_server_is_the_command_of_a_terminal() -> None:
    command = python_command("-m", commands._MODULE, "--version")
    # Its standard input stays open: a closed one would interrupt it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.read().startswith("anaphora ")
