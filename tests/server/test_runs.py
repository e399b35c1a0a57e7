"""Runs of a home, read from the files that commands leave."""

from __future__ import annotations

import json
from pathlib import Path

from server.runs import list_runs, read_run
from text.progress import PROGRESS, progress_reporter, track_progress


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def test_a_run_is_followed_from_its_start_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "synth" / "first"
    with track_progress(folder):
        progress_reporter()("propositions", 7, 20)
        (running,) = list_runs(tmp_path)
        (folder / "dialogs.train.jsonl").touch()
    (ended,) = list_runs(tmp_path)
    assert running.progress is not None
    assert (running.state, running.progress.stage, running.progress.done) == ("running", "propositions", 7)
    assert ended.state == "done"


def test_a_killed_command_is_interrupted_and_a_paused_one_unfinished(tmp_path: Path) -> None:
    folder = tmp_path / "synth" / "first"
    with track_progress(folder):
        as_if_killed = (folder / PROGRESS).read_text()
    assert [run.state for run in list_runs(tmp_path)] == ["unfinished"]
    (folder / PROGRESS).write_text(as_if_killed)
    assert [run.state for run in list_runs(tmp_path)] == ["interrupted"]


def test_figures_and_tables_are_read_from_files(tmp_path: Path) -> None:
    write(tmp_path / "rewriters/docs/recipe.json", {})
    change = {"group": "all", "measure": "AP", "before": 0.5, "after": 0.625, "p": 0.01}
    evaluated = {"evaluate": {"changes": [change], "reason": "better"}}
    write(tmp_path / "adapt/docs/state.json", {"wanted": {}, "done": evaluated})
    write(tmp_path / "eval/runs/one/run.json", {"kind": "retrieval", "settings": {"llm": {"model": "secret"}}})
    metric = {"set": "s", "part": "all", "measure": "AP", "mean": 0.25}
    write(tmp_path / "eval/runs/one/metrics.json", {"metrics": [metric]})
    write(tmp_path / "eval/runs/damaged/run.json", [1])
    (tmp_path / "rewriters" / "not a name").mkdir()
    assert {(run.group, run.name, run.state) for run in list_runs(tmp_path)} == {
        ("rewriters", "docs", "unfinished"),
        ("adapt", "docs", "done"),
        ("eval", "one", "done"),
        ("eval", "damaged", "done"),
    }
    trained = read_run(tmp_path, "rewriters", "docs")
    assert trained is not None
    assert [table.rows for table in trained.tables] == [(("all", "AP", "0.500", "0.625", "0.010"),)]
    measured = read_run(tmp_path, "eval", "one")
    assert measured is not None
    assert measured.figures == {"kind": "retrieval"}
    assert measured.tables[0].rows == (("s", "AP", "0.250"),)
    assert read_run(tmp_path, "eval", "../runs/one") is None
