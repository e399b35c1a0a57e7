"""`anaphora train` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from tests.tiny_models import tiny_t5

RECIPE = """
name = "tiny"
[model]
base = "BASE"
[stage]
steps = 2
batch = 4
evaluate_every = 1
data = [{ path = "rows.jsonl", hold_out = 0.3 }]
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a recipe and rows for it."""
    turn = {"role": "user", "text": "How do I renew a library card, a bus pass, or a fishing licence?"}
    rows = [
        {"id": f"d{n}#3", "history": [turn], "question": f"cost {n}?", "rewrite": f"What does a bus pass cost {n}?"}
        for n in range(40)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    recipe = RECIPE.replace("BASE", str(tiny_t5(tmp_path / "base")))
    (tmp_path / "tiny.toml").write_text(recipe, "utf-8")
    return tmp_path


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, result.output


def test_a_recipe_becomes_a_run_that_serves(data: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    recipe = str(data / "tiny.toml")
    options = ("--data", str(data), "--name", "one", "--cpu", "--threads", "1", "--promote")
    code, output = anaphora(home, "train", recipe, *options)
    assert code == 0, output
    assert "dev loss" in output
    assert "one serves now" in output
    code, output = anaphora(home, "train", recipe, *options)
    assert code == 0
    assert "one is finished" in output
    assert json.loads((home / "rewriters" / "promoted.json").read_text("utf-8"))["run"] == "one"


def test_recipes_are_listed(tmp_path: Path) -> None:
    code, output = anaphora(tmp_path, "train", "--list")
    assert code == 0
    assert "terms" in output
    assert "flan" in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "no-such"), "There is no recipe 'no-such'"),
        (("train", "none.toml"), "none.toml cannot be read"),
        (("train", "terms", "--data", "nowhere"), "There is no folder nowhere"),
        (("train", "terms", "--base", "x", "--name", "../x"), "cannot name a run"),
        (("train", "terms", "--base", "nowhere/at/all"), "There is no file"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    code, output = anaphora(tmp_path, *arguments)
    assert code != 0
    assert says in " ".join(output.split())
    assert "Traceback" not in output


def test_every_wrong_value_of_a_recipe_is_named(data: Path, tmp_path: Path) -> None:
    wrong = RECIPE.replace("steps = 2", "steps = 2\nepochs = 1").replace("[stage]", "words = 3\n[stage]")
    (data / "wrong.toml").write_text(wrong, "utf-8")
    code, output = anaphora(tmp_path, "train", str(data / "wrong.toml"), "--data", str(data))
    text = " ".join(output.split())
    assert code == 3
    assert "model.words" in text
    assert "either `steps` or `epochs`" in text
