"""A tiny pair model, trained on who costs what: it is exported, packed over its base, and served."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from papers.contradiction.family import SUPPORTS
from papers.contradiction.pairs import LABELS, Pair, PairGroup, write_pairs
from papers.cross_encoder.training import pretrained, write_onnx
from rewriter.load import describe
from rewriter.recipe import Recipe
from rewriter.training import Machine, train
from tests.papers.test_cross_encoder import FACTS, THINGS, make_base

MACHINE = Machine(cpu_only=True, threads=1, bars=False)


def groups(count: int) -> list[PairGroup]:
    """Statements about things; an edit says another thing, and a window elsewhere another fact."""
    rng = random.Random(1)
    made = []
    for n in range(count):
        thing, other = rng.sample(THINGS, 2)
        fact, else_ = rng.sample(FACTS, 2)
        said, evidence = f"a {thing} {fact} .", f"the {thing} {fact} ."
        made.append(
            PairGroup(
                (
                    Pair(f"{n}:true", f"d{n}", "page", "retold", "supported", said, evidence),
                    Pair(f"{n}:name", f"d{n}", "page", "name", "contradicted", f"a {other} {fact} .", evidence),
                    Pair(f"{n}:apart", f"d{n}", "page", "neighbour", "neither", said, f"the {thing} {else_} ."),
                )
            )
        )
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base as the registry has it: an int8 ONNX file and its tokenizer."""
    import torch

    torch.manual_seed(0)
    torch_base = make_base(tmp_path_factory.mktemp("bases") / "torch", layers=3)
    folder = torch_base.with_name("base")
    folder.mkdir()
    model = pretrained(str(torch_base))
    with torch.no_grad():
        for weight in model.parameters():  # equal ones would become one in the file
            weight.add_(0.02 * torch.randn_like(weight))
    write_onnx(model, folder / "model.onnx")
    shutil.copy(torch_base / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; only to be read."""
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home") / "mine"
    write_pairs(data / "pairs.jsonl", (pair for group in groups(200) for pair in group.pairs))
    recipe = {
        "name": "tiny",
        "model": {"family": "support", "base": str(base), "layers": 2, "frozen": 1},
        "stage": {
            "data": [{"path": "pairs.jsonl", "hold_out": 0.2}], "steps": 200, "batch": 16, "warmup": 1,
            "learning_rate": 1e-3, "evaluate_every": 100, "save_every": 100,
        },
    }  # fmt: skip
    return train(Recipe.model_validate(recipe), data, folder, machine=MACHINE, callback=lambda _: None)


def test_it_learns_what_is_supported_and_what_is_turned(trained: Path) -> None:
    described = describe(trained, SUPPORTS)
    # Better than any answer that does not look at the evidence: one in three.
    assert sum(described["metrics"][label] for label in LABELS) / 3 > 0.45
