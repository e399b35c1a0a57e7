"""Opening a cross-encoder to train: from weights as transformers keeps them, or from an int8 ONNX file.

What is fetched for serving is such a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.errors import TrainingError
from rewriter.onnx_weights import multiplied_out

if TYPE_CHECKING:
    from transformers import BertForSequenceClassification

ONNX, WEIGHTS = "model.onnx", "weights"
"""In a run's folder; one of the registry has the first alone."""
HEAD_WIDTH = 32
"""The file does not say; that of the MiniLM models."""
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""Without dropout: there are few steps, and a teacher to follow."""


def pretrained(base: str) -> Any:
    """A BERT-like cross-encoder with one logit, from a folder or of a hub id; raises TrainingError."""
    from transformers import AutoModelForSequenceClassification

    folder = Path(base)
    if (folder / WEIGHTS / "config.json").is_file():
        base = str(folder / WEIGHTS)
    elif (folder / ONNX).is_file() and not (folder / "config.json").is_file():
        return from_onnx(folder / ONNX)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(base, **STILL)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"cannot open the cross-encoder {base!r} to train from: {error}. Give a folder, a registered name, or a "
            "hub id on a machine that reaches the hub."
        ) from error
    if model.config.num_labels != 1:
        raise TrainingError(f"{base!r} gives {model.config.num_labels} numbers a pair; a cross-encoder gives one.")
    return model


def from_onnx(path: Path) -> BertForSequenceClassification:
    """The BERT cross-encoder in an int8 ONNX file that was exported from torch; raises TrainingError for any other."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    config: Any = BertConfig
    try:
        weights = {name: torch.tensor(value) for name, value in multiplied_out(path)}
        words, width = weights["bert.embeddings.word_embeddings.weight"].shape
        layers = {name.split(".")[3] for name in weights if name.startswith("bert.encoder.layer.")}
        model = BertForSequenceClassification(
            config(
                vocab_size=words,
                hidden_size=width,
                num_hidden_layers=len(layers),
                num_attention_heads=width // HEAD_WIDTH,
                intermediate_size=len(weights["bert.encoder.layer.0.intermediate.dense.bias"]),
                max_position_embeddings=len(weights["bert.embeddings.position_embeddings.weight"]),
                type_vocab_size=len(weights["bert.embeddings.token_type_embeddings.weight"]),
                num_labels=1,
                **STILL,
            )
        )
        model.load_state_dict(weights)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise TrainingError(f"{path} is no int8 BERT cross-encoder exported from torch: {error}") from error
    return model
