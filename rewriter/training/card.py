"""The model card of a run: what it was made of, how, where, and what it came to, with the curves of its losses."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewriter.training.recipe import Recipe
from rewriter.training.stages import TrainingSource

CARD = "README.md"


def hardware() -> str:
    """Processor, cores and GPUs, in one line."""
    import torch

    parts = [f"{platform.machine()} CPU, {os.cpu_count()} cores, torch {torch.__version__}"]
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return "; ".join(parts)


def write_card(
    folder: Path,
    recipe: Recipe,
    about: str,
    sources: Sequence[TrainingSource],
    logs: Mapping[str, Sequence[dict[str, float]]],
    description: Mapping[str, Any],
) -> None:
    """Write `README.md` and `curves.png` into a run's folder; `logs` are Trainer's, by stage, in the order they ran."""
    draw(folder / "curves.png", folder.name, logs)
    scores, gate = description["metrics"], description.get("gate")
    if gate:
        parts = f"p = sigmoid({gate['scale']:.3f} · logit {gate['shift']:+.3f}), threshold {gate['threshold']:.2f}"
        gate = f"| gate | {parts} |"
    steps = (f"{name} {int(max((entry['step'] for entry in log), default=0)):,}" for name, log in logs.items())
    lines = [
        f"# {folder.name}",
        "",
        f"A model of the family `{recipe.model.family}`, made by the recipe `{recipe.name}` from "
        f"`{description['base']}`" + (" with LoRA." if recipe.lora else "."),
        about,
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {description['parameters']:,} ({description['trained']:,} trained) |",
        f"| steps | {', '.join(steps)} |",
        f"| time | {description['seconds'] / 60:.1f} minutes |",
        f"| hardware | {description['hardware']} |",
        f"| seed | {recipe.seed} |",
        *([gate] if gate else []),
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


def draw(path: Path, title: str, logs: Mapping[str, Sequence[dict[str, float]]]) -> None:
    """Training and dev loss over steps, stages one after another, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    offset = 0.0
    for n, (name, log) in enumerate(logs.items()):
        label = ("training", "dev") if n == 0 else (None, None)
        for key, style, named in (("loss", "C0-", label[0]), ("eval_loss", "C1o-", label[1])):
            points = [(offset + entry["step"], entry[key]) for entry in log if key in entry]
            if points:
                axes.plot(*zip(*points, strict=True), style, markersize=3, linewidth=1, label=named)
        axes.axvline(offset, color="0.85", linewidth=1, zorder=0)
        axes.annotate(
            name, (offset, 1), xycoords=("data", "axes fraction"), xytext=(3, -10), textcoords="offset points"
        )
        offset += max((entry["step"] for entry in log), default=0)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.set_title(title)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(path, dpi=110)
