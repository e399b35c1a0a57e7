"""Families of rewriters, and LoRA against full training: the same recipe, data, seed and steps, one after the other.

Importing this module lets recipes name the family `mamba`, and its runs be opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cli.shared.options import Cpu
from cli.shared.state import InputError, state_of
from rewriter import load, recipe
from rewriter.examples import read_examples
from rewriter.recipe import ConditionalModelPart, read_recipe


class MambaModelPart(ConditionalModelPart):
    """A state space model."""

    family: Literal["mamba"]  # type: ignore[assignment]


recipe.FAMILIES["mamba"] = (MambaModelPart, "papers.orconvqa.mamba:MambaFamily")
load.FAMILIES["mamba"] = "papers.orconvqa.mamba:load"

RECIPE = Path(__file__).parent / "recipes" / "t5-small-data.toml"
FAMILIES: dict[str, dict[str, Any]] = {
    "T5": {"kind": "t5"},
    "T5 that copies": {"kind": "t5", "copies": True},
    "GPT-2-like": {"kind": "gpt2"},
    "Mamba": {"kind": "mamba"},
}
COPIES, FULL, LORA = "T5 that copies", "all weights, from that", "LoRA, from that"
NAMES = (*FAMILIES, FULL, LORA)
LEARNING_RATE = {LORA: 3e-3}
"""Low rank wants a larger step; all others keep the recipe's."""
MEASURES = ("rouge_l", "exact", "gate_f1", "refused")


def families(
    context: typer.Context,
    data: Annotated[Path, typer.Option(help="Folder with `synthetic/` and `rewriting/`.")],
    runs: Annotated[Path, typer.Option(help="Folder of the runs; the same one goes on with what was stopped.")],
    size: Annotated[str, typer.Option(help="Size of the fresh weights, such as tiny, 3m, 6m, 31m.")] = "3m",
    steps: Annotated[int, typer.Option(help="Steps of each.")] = 900,
    only: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(NAMES)}; repeatable.")] = None,
    cpu: Cpu = False,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves it to torch.")] = 0,
) -> None:
    """Train each family from fresh weights, and LoRA and all weights from the T5 that copies, for as many steps."""
    from rewriter.training import Machine

    if unknown := set(only or ()) - set(NAMES):
        raise InputError(f"There is no row {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    state, machine = state_of(context), Machine(cpu, threads)
    folders = {name: _run(name, data, runs, size, steps, machine) for name in only or NAMES}
    lines = [
        "| rewriter | parameters | dev loss | ROUGE-L | exact | gate F1 | refused by guard | ms, p50 | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(name, folder) for name, folder in folders.items()),
    ]
    copied = json.loads((next(iter(folders.values())) / "rewriter.json").read_text("utf-8"))["metrics"]
    copying = f"copying: {copied['copy_rouge_l']:.3f}, {copied['copy_exact']:.3f}"
    state.out.print("\n".join([*lines, "", f"{copied['examples']} held-out turns; {copying}"]), soft_wrap=True)


def _run(name: str, data: Path, runs: Path, size: str, steps: int, machine: Any) -> Path:
    """Train one row, or find it trained."""
    from papers.orconvqa.fresh_bases import write_base
    from rewriter.training import train

    plan = read_recipe(str(RECIPE))
    every = max(1, steps // 2)
    stage: dict[str, float] = {"steps": steps, "evaluate_every": every, "save_every": every}
    stage["learning_rate"] = LEARNING_RATE.get(name, plan.stage.learning_rate)
    changes: dict[str, Any] = {"stage": stage}
    base = runs / "bases" / _slug(name)
    if name in FAMILIES:
        shape = FAMILIES[name]
        changes["model"] = {"family": {"gpt2": "causal"}.get(shape["kind"], shape["kind"]), "base": str(base)}
        if not (base / "tokenizer_config.json").is_file():
            write_base(base, size=size, texts=_texts(data, plan.stage.data), seed=plan.seed, **shape)
    else:
        changes["model"] = {"base": str((runs / _slug(COPIES) / "weights").resolve())}
        changes["lora"] = {} if name == LORA else None
    return train(read_recipe(str(RECIPE), changes), data, runs / _slug(name), machine=machine)


def _texts(data: Path, parts: Any) -> Iterator[str]:
    """Every text at hand, for the vocabulary."""
    for part in parts:
        for example in read_examples(data / part.path):
            yield example.question
            yield example.rewrite
            yield from (message.text for message in example.history)


def _row(name: str, folder: Path) -> str:
    """A finished run's line of the table."""
    about = json.loads((folder / "rewriter.json").read_text("utf-8"))
    log = json.loads((folder / "log.json").read_text("utf-8"))
    losses = [entry["eval_loss"] for entry in log if "eval_loss" in entry]
    cells = (
        f"{about['parameters'] / 1e6:.1f} M",
        f"{losses[-1]:.3f}",
        *(f"{about['metrics'][key]:.3f}" for key in MEASURES),
        f"{about['metrics']['p50_ms']:.1f}",
        f"{about['seconds']:.0f}",
    )
    return f"| {name} | {' | '.join(cells)} |"


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name.lower())
