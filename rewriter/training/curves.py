"""The curves of a run as one PNG: training and dev loss over steps, stages one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(path: Path, title: str, stages: Sequence[tuple[str, Sequence[dict[str, float]]]]) -> None:
    """Write the picture of `stages`: names and Trainer's log of each, in the order they ran."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    offset = 0.0
    for n, (name, log) in enumerate(stages):
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
    axes.set_ylabel("loss (nats per token)")
    axes.set_title(title)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(path, dpi=110)
