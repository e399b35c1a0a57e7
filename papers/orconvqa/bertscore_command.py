"""Score answers against references with BERTScore (Zhang et al. 2020)."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from cli.shared.state import state_of


def bertscore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON lines of `answer` and `reference`.")],
    encoder: Annotated[str, typer.Option(help="A hub id, a folder, or a registered name.")] = "",
) -> None:
    """Print the mean precision, recall and F1 of the answers in a file."""
    from papers.orconvqa.bertscore import BertScore
    from server.registry import resolve

    state = state_of(context)
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    scorer = BertScore(resolve(encoder, state.settings().home)) if encoder else BertScore()
    scores = scorer.score([row["answer"] for row in rows], [row["reference"] for row in rows])
    for name in ("precision", "recall", "f1"):
        state.out.print(f"{name}: {fmean(getattr(score, name) for score in scores):.3f}")
