"""Runs of a home: listed, promoted, rolled back, and what a running server makes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from rewriter.load import packaged_folder
from rewriter.protocol import RunError
from rewriter.runs import list_runs, promote, promoted_run, rollback


@pytest.fixture
def home(trained: Path, tmp_path: Path) -> Path:
    """A home with two finished runs and one that was cut."""
    for name in ("first", "second"):
        shutil.copytree(trained, tmp_path / "rewriters" / name)
    (tmp_path / "rewriters" / "cut").mkdir()
    return tmp_path


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, result.output


def test_promoting_and_rolling_back_are_remembered(tmp_path: Path) -> None:
    home, packaged = tmp_path, packaged_folder()
    assert packaged is not None
    for name in ("first", "second"):
        shutil.copytree(packaged, home / "rewriters" / name)
    assert promoted_run(home) == ""
    assert promote(home, "first") == ""
    assert promote(home, "second") == "first"
    assert promote(home, "second") == "second"
    assert [run.name for run in list_runs(home) if run.promoted] == ["second"]
    assert rollback(home) == "first"
    assert rollback(home) == ""
    with pytest.raises(RunError, match="nothing to go back to"):
        rollback(home)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "says"), [("third", "There is no run"), ("cut", "no finished rewriter"), ("../first", "cannot name a run")]
)
def test_what_cannot_serve_is_not_promoted(home: Path, name: str, says: str) -> None:
    promote(home, "first")
    with pytest.raises(RunError, match=says):
        promote(home, name)
    assert promoted_run(home) == "first"


@pytest.mark.extended
def test_a_damaged_run_is_not_promoted_and_not_gone_back_to(home: Path) -> None:
    promote(home, "first")
    promote(home, "second")
    (home / "rewriters" / "first" / "export" / "model.bin").write_bytes(b"no model")
    with pytest.raises(RunError, match="damaged"):
        rollback(home)
    with pytest.raises(RunError, match="damaged"):
        promote(home, "first")
    assert promoted_run(home) == "second"


@pytest.mark.extended
def test_the_commands_list_promote_and_roll_back(home: Path) -> None:
    code, output = anaphora(home, "models", "runs")
    assert code == 0
    assert "first" in output
    assert "unfinished" in output
    assert anaphora(home, "models", "promote", "second")[0] == 0
    assert promoted_run(home) == "second"
    code, output = anaphora(home, "models", "promote", "third")
    assert code == 7
    assert "There is no run 'third'" in output
    assert anaphora(home, "models", "rollback")[0] == 0
    assert promoted_run(home) == ""
