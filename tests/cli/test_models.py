"""`anaphora models`, over the models the tests have fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return CliRunner()


def test_the_list_says_what_is_fetched(run: CliRunner, model_home: Path, tmp_path: Path) -> None:
    rows = run.invoke(app, ["--home", str(model_home), "models"]).stdout.splitlines()
    (row,) = [row for row in rows if row.startswith("smollm2-135m-instruct")]
    assert row.split()[1:6] == ["llm", "98", "MB", "Apache-2.0", "yes"]
    rows = run.invoke(app, ["--home", str(tmp_path), "models"]).stdout.splitlines()
    (row,) = [row for row in rows if row.startswith("smollm2-135m-instruct")]
    assert row.split()[5] == "no"


def test_fetch_prints_nothing_but_the_path_of_what_is_there(run: CliRunner, model_home: Path) -> None:
    result = run.invoke(app, ["--home", str(model_home), "models", "fetch", "ms-marco-minilm-l12"])
    assert result.stdout == f"{model_home / 'models' / 'ms-marco-minilm-l12'}\n"


def test_fetch_without_names_fetches_what_the_settings_name(
    run: CliRunner, model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run.invoke(app, ["--home", str(model_home), "models", "fetch"])
    assert (result.exit_code, result.stdout) == (0, "")
    (tmp_path / "models").symlink_to(model_home / "models")
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "qwen3-4b-instruct-2507")
    result = run.invoke(app, ["--home", str(tmp_path), "models", "fetch"])
    assert result.exit_code == ExitCode.MODEL
    assert "Qwen3-4B-Instruct-2507" in result.stderr


@pytest.mark.extended
def test_fetch_without_a_source_ends_with_its_own_exit_code(run: CliRunner, tmp_path: Path) -> None:
    result = run.invoke(app, ["--home", str(tmp_path), "models", "fetch", "smollm2-135m-instruct"])
    assert result.exit_code == ExitCode.MODEL
    assert "connect this machine to the network" in result.stderr


def test_what_suits_the_machine_is_recommended_and_offline_says_what_to_do(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recommended(gigabytes: float, *arguments: str) -> str:
        monkeypatch.setattr("server.installation.machine_memory", lambda: int(gigabytes * 1e9))
        return run.invoke(app, ["--home", str(tmp_path), "models", *arguments]).stderr

    monkeypatch.setattr("server.installation.machine_cores", lambda: 8)
    told = recommended(8)
    assert "8 GB of memory and 8 cores" in told
    assert "qwen3-4b-instruct-2507, 2.5 GB from the hub, Apache-2.0, some 4.4 GB of memory, roughly tens of sec" in told
    assert "`anaphora models fetch granite-4.0-micro`" in recommended(6)
    assert "more than this machine has (4 GB of memory" in recommended(4)
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "granite-4.0-micro")
    assert recommended(8) == ""

    result = run.invoke(app, ["--home", str(tmp_path), "models", "fetch", "qwen3-4b-instruct-2507"])
    assert result.exit_code == ExitCode.MODEL
    assert "HF_HUB_OFFLINE is set. Check the network" in result.stderr
    assert "qwen2.5-coder-1.5b-instruct, smollm2-135m-instruct need no hub" in result.stderr


def test_a_wrong_name_fetches_nothing(run: CliRunner, tmp_path: Path) -> None:
    result = run.invoke(app, ["--home", str(tmp_path), "models", "fetch", "smollm2-135m-instruct", "smollm3"])
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "There is no model 'smollm3'" in result.stderr
    assert not (tmp_path / "models").exists()
