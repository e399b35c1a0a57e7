"""Families of rewriters, and LoRA against full training: the same recipe, data, seed and steps, one after the other.

    python benchmarks/bench_families.py --data DATA --runs RUNS [--steps N] [--rows N] [--threads T] [--only NAME ...]

`--data` is a folder with `synthetic/` and `rewriting/`: dialogs that a large model wrote, and pairs of people. The
recipe is `t5-small-data`, cut to `--steps` steps, on at most `--rows` rows of each file. Each row of the table is a
run in a folder below `--runs`, so what was stopped goes on. T5 comes twice, with and without the copying circuit that
only it has. LoRA and full training both start from the weights of the T5 that copies, and go on for as many steps.
Prints a Markdown table: text measures on held-out turns, beside those of copying the question, and the loss on them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rewriter.training import Machine, read_recipe, train

RECIPE = "t5-small-data"
FAMILIES: dict[str, dict[str, Any]] = {
    "T5": {"family": "t5", "base": "config:3m", "copies": False},
    "T5 that copies": {"family": "t5", "base": "config:3m", "copies": True},
    "GPT-2-like": {"family": "causal", "base": "config:gpt2-3m", "copies": False},
    "Mamba": {"family": "causal", "base": "config:mamba-3m", "copies": False},
}
BASE, FULL, LORA = "T5 that copies", "all weights, from that", "LoRA, from that"
LEARNING_RATE = {LORA: 3e-3}
"""Low rank wants a larger step; all others keep the recipe's."""


def run(name: str, options: argparse.Namespace) -> Path:
    """Train one row, or find it trained."""
    (stage,) = (stage.model_dump(mode="json", exclude_none=True) for stage in read_recipe(RECIPE).stage)
    for part in stage["data"]:
        part["limit"] = options.rows
    every = max(1, options.steps // 2)
    stage |= {"steps": options.steps, "evaluate_every": every, "save_every": every}
    stage["learning_rate"] = LEARNING_RATE.get(name, stage["learning_rate"])
    changes: dict[str, Any] = {"dev_examples": 400, "stage": [stage]}
    if name in FAMILIES:
        changes["model"] = FAMILIES[name]
    else:
        weights = options.runs / slug(BASE) / "weights"
        changes["model"] = {"family": "t5", "base": str(weights.resolve()), "copies": False}
        changes["lora"] = {} if name == LORA else None
    machine = Machine(cpu_only=options.cpu, threads=options.threads)
    return train(read_recipe(RECIPE, changes), options.data, options.runs / slug(name), machine=machine)


def row(name: str, folder: Path) -> str:
    """What a finished run knows of itself."""
    about = json.loads((folder / "rewriter.json").read_text("utf-8"))
    found = about["metrics"]
    log = json.loads((folder / "stages" / "pairs" / "log.json").read_text("utf-8"))
    losses = [entry["eval_loss"] for entry in log if "eval_loss" in entry]
    cells = (
        f"{about['parameters'] / 1e6:.1f} M",
        f"{losses[-1]:.3f}",
        *(f"{found[key]:.3f}" for key in ("rouge_l", "exact", "gate_f1", "refused")),
        f"{found['p50_ms']:.1f}",
        f"{about['seconds']:.0f}",
    )
    return f"| {name} | {' | '.join(cells)} |"


def slug(name: str) -> str:
    """A name as a folder is called."""
    return "".join(char if char.isalnum() else "-" for char in name.lower())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu", action="store_true")
    names = [*FAMILIES, FULL, LORA]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    folders = {name: run(name, options) for name in options.only}
    print("\n| rewriter | parameters | dev loss | ROUGE-L | exact | gate F1 | refused by guard | ms, p50 | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, folder in folders.items():
        print(row(name, folder))
    copied = json.loads((next(iter(folders.values())) / "rewriter.json").read_text("utf-8"))["metrics"]
    print(f"\n{copied['examples']} held-out turns; copying: {copied['copy_rouge_l']:.3f}, {copied['copy_exact']:.3f}")


if __name__ == "__main__":
    main()
