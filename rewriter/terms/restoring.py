"""Going on from a finished term rewriter: its weights as a model that can be trained further.

A run has them in full (`model.pt`). The packaged rewriter has its ONNX file alone, whose int8 weights are multiplied
out again: each is off by half a step of its scale at most, which a few steps of training make good.
"""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from rewriter.errors import TrainingError
from rewriter.load import packaged_folder
from rewriter.onnx_weights import multiplied_out
from rewriter.terms.scoring import MODEL

if TYPE_CHECKING:
    from rewriter.terms.model import TermModel

WEIGHTS = "model.pt"
PACKAGED = "packaged"
_WORDS = "encoder.embeddings.word_embeddings.weight"


def restore(model: TermModel, start: str) -> None:
    """Put the weights of a finished rewriter into `model`, which was made from the same encoder.

    `start` is its folder, or `packaged`. The vectors of words stay those of `model`: no training moves them. Raises
    TrainingError where the weights cannot be read or belong to another encoder, MissingExtra without `onnx`.
    """
    import torch

    folder = packaged_folder() if start == PACKAGED else Path(start)
    if folder is None:
        raise TrainingError("this installation has no packaged rewriter to go on from: give the recipe another start")
    try:
        if (folder / WEIGHTS).is_file():
            weights: dict[str, Any] = torch.load(folder / WEIGHTS, weights_only=True, map_location="cpu")
        else:
            weights = {name: torch.tensor(value) for name, value in multiplied_out(folder / MODEL)}
        weights[_WORDS] = model.state_dict()[_WORDS]
        model.load_state_dict(two_heads(weights))
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
        raise TrainingError(
            f"the weights in {folder} cannot be gone on from ({error}): "
            "is it a finished term rewriter, made from the same encoder?"
        ) from error


def two_heads(weights: dict[str, Any]) -> dict[str, Any]:
    """The weights without the third head that older rewriters may have."""
    return {name: value for name, value in weights.items() if not name.startswith(("attend.", "meaning."))}
