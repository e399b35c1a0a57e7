"""A small world of follow-ups, and a tiny T5 trained on it once: real weights, real export."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewriter.examples import RewriteExample, write_examples
from rewriter.protocol import Message
from rewriter.recipe import Recipe
from rewriter.training import Machine, train
from tests.tiny_models import tiny_t5

MACHINE = Machine(cpu_only=True, threads=1, bars=False)
THINGS = ("passport", "parking permit", "library card", "fishing licence", "bus pass", "birth certificate")
ASKED = ("How do I renew {}?", "What does {} cost?", "Where do I apply for {}?", "Who may have {}?")
LATER = ("and how long does it take", "What does it cost?", "can I get it by mail?", "Is it valid abroad?")


def examples(count: int, seed: int = 1) -> Iterator[RewriteExample]:
    """Dialogs about papers people need; every second follow-up says `it`."""
    rng = random.Random(seed)
    for n in range(count):
        thing = f"a {rng.choice(THINGS)}"
        asked = rng.choice(ASKED).format(thing)
        history = (Message("user", asked), Message("assistant", f"Ask the office about {thing}."))
        if n % 2:
            question = rng.choice(LATER)
            yield RewriteExample(f"d{n}#3", history, question, question.replace("it", thing, 1), "papers")
        else:
            other = rng.choice(ASKED).format(f"a {rng.choice(THINGS)}")
            yield RewriteExample(f"d{n}#3", history, other, other, "papers")


@pytest.fixture(scope="session")
def t5_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 with random weights."""
    return tiny_t5(tmp_path_factory.mktemp("bases") / "tiny-t5")


@pytest.fixture(scope="session")
def recipe_of(t5_base: Path) -> Callable[..., Recipe]:
    """Makes a recipe over `papers.jsonl` that a test can afford; `stage` and `model` change theirs."""

    def recipe(**changes: Any) -> Recipe:
        stage = {
            "data": [{"path": "papers.jsonl", "hold_out": 0.2}],
            "steps": 12,
            "batch": 8,
            "learning_rate": 3e-3,
            "warmup": 2,
            "evaluate_every": 4,
            "save_every": 4,
        } | changes.pop("stage", {})
        model = {"base": str(t5_base), "lengths": {"source": 64, "target": 24}} | changes.pop("model", {})
        return Recipe.model_validate({"name": "papers", "model": model, "stage": stage, "dev_examples": 30} | changes)

    return recipe


@pytest.fixture(scope="session")
def run() -> Callable[[Recipe, Path, Path], Path]:
    """Runs a recipe over a data folder in a folder, on one thread of the CPU, in silence."""
    return lambda recipe, root, folder: train(recipe, root, folder, machine=MACHINE, callback=lambda _: None)


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with `papers.jsonl`."""
    root = tmp_path_factory.mktemp("data")
    write_examples(root / "papers.jsonl", examples(240))
    return root


@pytest.fixture(scope="session")
def trained(
    papers: Path, recipe_of: Callable[..., Recipe], run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A finished run of a tiny T5 that has learned its gate; only to be read."""
    stage = {"steps": 150, "learning_rate": 5e-3, "warmup": 10, "evaluate_every": 50, "save_every": 50}
    return run(recipe_of(stage=stage), papers, tmp_path_factory.mktemp("runs") / "papers-t5")


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The same run, to be spoilt."""
    return Path(shutil.copytree(trained, tmp_path / trained.name))
