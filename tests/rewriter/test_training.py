"""Whole training runs of tiny models: what they leave behind, and that killing them changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rewriter.load import load_rewriter
from rewriter.protocol import RecipeError, TrainingError
from rewriter.recipe import Recipe
from rewriter.training import Machine

pytestmark = pytest.mark.extended

Recipes = Callable[..., Recipe]
Runs = Callable[[Recipe, Path, Path], Path]


def losses(folder: Path) -> list[tuple[int, str, float]]:
    log = json.loads((folder / "log.json").read_text("utf-8"))
    return [
        (int(entry["step"]), key, float(entry[key])) for entry in log for key in ("loss", "eval_loss") if key in entry
    ]


def test_a_finished_run_is_a_folder_that_tells_everything(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} >= {
        "rewriter.json", "tokenizer.json", "weights", "export", "README.md", "recipe.json",
    }  # fmt: skip
    assert not list(trained.rglob("checkpoint-*"))
    card = (trained / "README.md").read_text("utf-8")
    sources = json.loads((trained / "data.json").read_text("utf-8"))
    assert sources[0]["sha256"] in card
    assert '"seed": 13' in card
    description = json.loads((trained / "rewriter.json").read_text("utf-8"))
    assert description["metrics"]["gate_f1"] > 0.4
    assert description["metrics"]["failed"] == 0
    assert set(description["files"]) >= {"tokenizer.json", "export/model.bin"}


def test_a_killed_run_resumes_to_the_same_loss(papers: Path, tmp_path: Path, recipe_of: Recipes, run: Runs) -> None:
    """Killed with SIGKILL after its second checkpoint, between two others, with dropout and several epochs."""
    few = {"path": "papers.jsonl", "hold_out": 0.8}  # an epoch is six steps
    stage = {"steps": 24, "save_every": 4, "evaluate_every": 4, "data": [few]}
    recipe = recipe_of(stage=stage)
    whole = run(recipe, papers, tmp_path / "whole")
    killed = tmp_path / "killed"
    spec = tmp_path / "recipe.json"
    spec.write_text(recipe.model_dump_json(), "utf-8")
    script = (
        "import sys; from pathlib import Path; from rewriter.training import Machine, Recipe, train\n"
        "train(Recipe.model_validate_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), Path(sys.argv[3]),\n"
        "      machine=Machine(cpu_only=True, threads=1, bars=False))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(spec), str(papers), str(killed)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    state = killed / "checkpoints" / "checkpoint-8" / "trainer_state.json"
    try:
        while not state.is_file():
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (killed / "rewriter.json").exists()
    run(recipe, papers, killed)
    assert losses(killed) == losses(whole)
    assert (killed / "weights" / "model.safetensors").read_bytes() == (
        whole / "weights" / "model.safetensors"
    ).read_bytes()


def test_a_run_goes_on_only_with_its_own_recipe_and_data(
    papers: Path, tmp_path: Path, recipe_of: Recipes, run: Runs
) -> None:
    folder = tmp_path / "run"
    run(recipe_of(stage={"steps": 2}), papers, folder)
    (folder / "rewriter.json").unlink()
    with pytest.raises(RecipeError, match="another recipe"):
        run(recipe_of(stage={"steps": 3}), papers, folder)
    changed = tmp_path / "data"
    changed.mkdir()
    rows = (papers / "papers.jsonl").read_text("utf-8").splitlines()
    (changed / "papers.jsonl").write_text("\n".join(rows[:-1]) + "\n", "utf-8")
    with pytest.raises(RecipeError, match="data of run changed"):
        run(recipe_of(stage={"steps": 2}), changed, folder)


def test_early_stopping_ends_a_stage_and_keeps_its_best(
    papers: Path, tmp_path: Path, recipe_of: Recipes, run: Runs
) -> None:
    stage = {"steps": 400, "learning_rate": 0.5, "evaluate_every": 2, "save_every": 2, "patience": 2}
    folder = run(recipe_of(stage=stage), papers, tmp_path / "run")
    assert max(step for step, _, _ in losses(folder)) < 400


def test_lora_trains_few_weights_and_is_merged_into_the_base(
    trained: Path, papers: Path, tmp_path: Path, recipe_of: Recipes, run: Runs
) -> None:
    recipe = recipe_of(model={"base": str(trained / "weights")}, lora={"rank": 4, "alpha": 8}, stage={"steps": 4})
    folder = run(recipe, papers, tmp_path / "run")
    card = (folder / "README.md").read_text("utf-8")
    assert "with LoRA" in card
    from safetensors import safe_open

    def names(run: Path) -> set[str]:
        with safe_open(run / "weights" / "model.safetensors", "pt") as file:
            return set(file.keys())

    assert names(folder) == names(trained)
    load_rewriter(folder)


def test_a_loss_that_is_no_number_ends_the_run(papers: Path, tmp_path: Path, recipe_of: Recipes, run: Runs) -> None:
    stage = {"steps": 30, "learning_rate": 1e30, "warmup": 0, "evaluate_every": 2}
    with pytest.raises(TrainingError, match="Lower the recipe's `learning_rate`"):
        run(recipe_of(stage=stage), papers, tmp_path / "run")


@pytest.mark.parametrize("cpu_only", [True, False])
def test_every_machine_can_be_trained_on_unasked(tmp_path: Path, cpu_only: bool) -> None:
    from transformers import TrainingArguments

    machine = Machine(cpu_only)
    assert TrainingArguments(output_dir=str(tmp_path), bf16=machine.bf16_pays, use_cpu=machine.on_cpu)
