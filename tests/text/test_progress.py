"""The progress file of a long command."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from text.progress import PROGRESS, progress_reporter, read_progress, track_progress


def test_stage_count_and_end_are_written(tmp_path: Path) -> None:
    with track_progress(tmp_path / "run"):
        report = progress_reporter()
        report("pairs", 0, 20)
        during = read_progress(tmp_path / "run")
        thread = threading.Thread(target=report, args=("pairs", 20, 20))
        thread.start()
        thread.join()
    assert during is not None
    assert (during.status, during.stage, during.done, during.total) == ("running", "pairs", 0, 20)
    after = read_progress(tmp_path / "run")
    assert after is not None
    assert (after.status, after.done, after.error) == ("done", 20, "")
    assert after.rate > 0
    assert after.started <= during.updated <= after.updated


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [(ValueError("no model"), "failed", "no model"), (KeyboardInterrupt(), "stopped", "")],
)
def test_an_error_and_an_interruption_are_told_apart(
    tmp_path: Path, error: BaseException, status: str, text: str
) -> None:
    with pytest.raises(type(error)), track_progress(tmp_path):
        raise error
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress.status, progress.error) == (status, text)


def test_nested_runs_are_both_told(tmp_path: Path) -> None:
    with track_progress(tmp_path / "adapt"):
        with track_progress(tmp_path / "train"):
            progress_reporter()("step", 3, 4)
        inner, outer = read_progress(tmp_path / "train"), read_progress(tmp_path / "adapt")
    assert inner is not None
    assert outer is not None
    assert (inner.status, inner.done, outer.status, outer.done) == ("done", 3, "running", 3)


def test_a_folder_is_tracked_by_one_process_only(tmp_path: Path) -> None:
    with track_progress(tmp_path):
        progress_reporter()("first", 1, 2)
        with track_progress(tmp_path):
            pass
        progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress.status, progress.stage) == ("running", "first")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"command": 1', "null"])
def test_a_damaged_file_is_no_progress(tmp_path: Path, content: str) -> None:
    (tmp_path / PROGRESS).write_text(content)
    assert read_progress(tmp_path) is None


def test_reports_outside_a_run_go_nowhere(tmp_path: Path) -> None:
    progress_reporter()("step", 1, 2)
    assert not list(tmp_path.iterdir())


def test_fields_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    with track_progress(tmp_path):
        pass
    row = json.loads((tmp_path / PROGRESS).read_text())
    (tmp_path / PROGRESS).write_text(json.dumps({**row, "colour": "blue"}))
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress.status == "done"
