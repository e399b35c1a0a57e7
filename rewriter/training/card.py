"""The model card of a run: what it was made of, how, where, and what it came to."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewriter.training.mixture import TrainingSource
from rewriter.training.recipe import Recipe

CARD = "README.md"


@dataclass(frozen=True, slots=True)
class Made:
    """How a run went."""

    parameters: int
    trainable: int
    steps: Mapping[str, int]
    seconds: float
    hardware: str


def hardware() -> str:
    """Processor, cores and GPUs, in one line."""
    import torch

    parts = [f"{platform.machine()} CPU, {os.cpu_count()} cores, torch {torch.__version__}"]
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return "; ".join(parts)


def write_card(
    folder: Path,
    recipe: Recipe,
    sources: Sequence[TrainingSource],
    made: Made,
    description: Mapping[str, Any],
) -> None:
    """Write `README.md` into a run's folder."""
    scores = description.get("metrics", {})
    gate = description["gate"]
    lines = [
        f"# {folder.name}",
        "",
        f"A conditional rewriter of the family `{recipe.model.family}`, made by the recipe `{recipe.name}` from "
        f"`{Path(recipe.model.base).name}`" + (" with LoRA." if recipe.lora else "."),
        "It decides whether a follow-up question needs its conversation and, if so, writes it in full.",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {made.parameters:,} ({made.trainable:,} trained) |",
        f"| steps | {', '.join(f'{name} {steps:,}' for name, steps in made.steps.items())} |",
        f"| time | {made.seconds / 60:.1f} minutes |",
        f"| hardware | {made.hardware} |",
        f"| seed | {recipe.seed} |",
        f"| served by | {', '.join(f'CTranslate2 {kind}' for kind in description['exports']) or 'torch'} |",
        f"| gate | p = sigmoid({gate['scale']:.3f} · difference {gate['shift']:+.3f}), threshold "
        f"{gate['threshold']:.2f} |",
        "",
        "## Data",
        "",
        "| file | examples | SHA-256 |",
        "|---|---|---|",
        *(f"| {source.path} | {source.examples:,} | `{source.sha256}` |" for source in sources),
        "",
    ]
    if scores:
        lines += [
            "## Held-out conversations",
            "",
            "Text only; what it does for retrieval is measured by `anaphora eval`.",
            "",
            "| measure | value |",
            "|---|---|",
            *(f"| {name} | {value:g} |" for name, value in scores.items()),
            "",
        ]
    lines += ["## Recipe", "", "```json", recipe.model_dump_json(indent=2), "```", ""]
    (folder / CARD).write_text("\n".join(lines), "utf-8")
