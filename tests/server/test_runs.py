"""Runs of a home, read from the files that commands leave: states, progress, figures, curves, promotion."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from server.runs import FOLDERS, RunReader
from text.progress import FILE, read_progress, recording, report


@pytest.fixture
def reader(tmp_path: Path) -> RunReader:
    return RunReader(tmp_path)


def test_a_running_command_tells_its_stage_and_ends_as_done(tmp_path: Path, reader: RunReader) -> None:
    folder = tmp_path / "synth" / "town"
    with recording(folder, "anaphora synth docs --out town"):
        report("propositions", 3, 40)
        [run] = reader.listing()
        assert (run.state, run.stage, run.done, run.total) == ("running", "propositions", 3, 40)
        (folder / "dialogs.train.jsonl").touch()
    [run] = reader.listing()
    assert (run.state, run.command, run.done) == ("done", "anaphora synth docs --out town", 0)
    assert run.ended is not None


def test_a_command_that_fails_leaves_its_error(tmp_path: Path, reader: RunReader) -> None:
    with pytest.raises(ValueError, match="no pairs"), recording(tmp_path / "adapt" / "a", "anaphora adapt"):
        raise ValueError("There are no pairs.")
    [run] = reader.listing()
    assert (run.state, run.problem) == ("failed", "There are no pairs.")


def test_ctrl_c_is_a_stop_and_a_process_that_is_gone_an_interruption(tmp_path: Path, reader: RunReader) -> None:
    with pytest.raises(KeyboardInterrupt), recording(tmp_path / "adapt" / "a", "anaphora adapt"):
        raise KeyboardInterrupt
    assert [run.state for run in reader.listing()] == ["stopped"]
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    file = tmp_path / "adapt" / "a" / FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"state": "running", "pid": child}))
    assert [run.state for run in reader.listing()] == ["interrupted"]


def test_a_run_without_progress_is_told_by_its_last_file(tmp_path: Path, reader: RunReader) -> None:
    for group, place in FOLDERS.items():
        (tmp_path / place / f"my-{group}").mkdir(parents=True)
    assert {run.state for run in reader.listing()} == {"unfinished"}
    (tmp_path / "eval" / "runs" / "my-eval" / "run.json").write_text('{"kind": "retrieval", "machine": {"cpu": "x"}}')
    detail = reader.detail("eval", "my-eval")
    assert detail is not None
    assert (detail.state, detail.report, detail.figures) == ("done", True, {"kind": "retrieval"})


def test_curves_come_from_finished_stages_and_the_newest_checkpoint(tmp_path: Path, reader: RunReader) -> None:
    stages = tmp_path / "rewriters" / "mine" / "stages"
    (stages / "a").mkdir(parents=True)
    (stages / "a" / "log.json").write_text(json.dumps([{"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 1.5}, 7]))
    checkpoint = stages / "b" / "checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"log_history": [{"step": 5, "loss": 1.0}]}))
    detail = reader.detail("rewriters", "mine")
    assert detail is not None
    assert {(curve.name, curve.points) for curve in detail.curves} == {
        ("a: loss", ((1, 2.0),)),
        ("a: dev loss", ((2, 1.5),)),
        ("b: loss", ((5, 1.0),)),
    }


def test_names_lead_nowhere_and_damaged_files_hide_nothing_else(tmp_path: Path, reader: RunReader) -> None:
    assert reader.detail("synth", "../eval") is None
    folder = tmp_path / "diagnose" / "a"
    folder.mkdir(parents=True)
    (folder / FILE).write_text("{not json")
    (folder / "metrics.json").write_text("[]")
    assert read_progress(folder) is None
    detail = reader.detail("diagnose", "a")
    assert detail is not None
    assert detail.state == "unfinished"
