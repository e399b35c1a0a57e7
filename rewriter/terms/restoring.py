"""The `[model]` part of a term rewriter's recipe, and restoring trained weights to start from."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rewriter.load import packaged_folder
from rewriter.onnx_weights import multiplied_out
from rewriter.protocol import TrainingError
from rewriter.terms.scoring import MODEL
from rewriter.training.recipe import ModelPart

if TYPE_CHECKING:
    from rewriter.terms.model import TermModel


class TermModelPart(ModelPart):
    """A BERT-like encoder to train, and how.

    `longer_answers` is the share of answers that get further sentences of their dialog, since people's systems talk
    longer than the dialogs do. `dropout` stands before the heads only. `positive` is the weight of words to be appended
    over those that are not, `gate_weight` that of the second head's loss.
    """

    family: Literal["terms"]
    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    start: str = ""
    """A finished term rewriter to go on from, made from the same encoder: its folder, or `packaged`."""
    frozen: int = Field(0, ge=0)
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    head_learning_rate: float = Field(1e-3, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    positive: float = Field(3.0, gt=0)
    gate_weight: float = Field(0.5, ge=0)
    longer_answers: float = Field(0.25, ge=0, lt=1)
    shifted: float = Field(0.15, ge=0, lt=1)
    """So many questions more, of all there are, stand alone after the conversation of another dialog."""
    threshold: float = Field(0.4, gt=0, lt=1)
    """A word is appended from this probability on."""
    gate_threshold: float = Field(0.5, gt=0, lt=1)
    """From this probability on, a question counts as one that needs its history."""


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
