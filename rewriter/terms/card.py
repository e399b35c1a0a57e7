"""The model card of a run: what it was trained from, how, for how long, and what it reached."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewriter.terms.data import Split
    from rewriter.terms.judging import Judgement
    from rewriter.terms.recipe import Recipe

CARD = "card.json"


def write_card(
    folder: Path,
    recipe: Recipe,
    split: Split,
    judgement: Judgement,
    *,
    gate: tuple[float, float],
    base: str,
    seconds: float,
) -> dict[str, Any]:
    """Write `card.json`; its `metrics` are those of the dialogs held out of training."""
    card = {
        "family": "terms",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": Path(base).name if Path(base).is_dir() else base,
        "settings": dataclasses.asdict(recipe),
        "data": {
            "sha256": split.hashes,
            "train": len(split.train),
            "held_out": len(split.held_out),
        },
        "metrics": metrics(judgement, gate, recipe),
        "seconds": round(seconds),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    (folder / CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    return card


def metrics(judgement: Judgement, gate: tuple[float, float], recipe: Recipe) -> dict[str, float]:
    """Precision, recall and F1 of the appended stems, F1 and AUC of the gate."""
    precision, recall, f1 = judgement.terms_at(recipe.threshold)
    found = {
        "term_precision": precision,
        "term_recall": recall,
        "term_f1": f1,
        "gate_f1": judgement.gate_f1(*gate, recipe.gate_threshold),
        "gate_auc": judgement.gate_auc(),
    }
    return {name: round(value, 4) for name, value in found.items()}
