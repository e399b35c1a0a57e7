"""The encoder with its heads, in torch: only training, export and the parity test need it.

Serving runs the exported ONNX file (`rewriter.terms.training`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rewriter.onnx_weights import write_int8
from rewriter.protocol import TrainingError
from rewriter.terms.reading import TYPES
from rewriter.terms.scoring import INPUTS, OUTPUTS

if TYPE_CHECKING:
    from rewriter.terms.training import Labelled


def batch(items: Sequence[Labelled]) -> dict[str, Tensor]:
    """Labelled readings as the model's arguments, padded on the right with zeros.

    `ids`, `types`, `mask` are `(n, longest)` int64; `first`, `last` and `word_labels` are `(n, most words)`: the tokens
    `[first, last)` of every word, and whether it is wanted; where no word is, `last` is 0. `gate_labels` is `(n,)`.
    """
    words = [item.reading.words for item in items]
    return {
        "ids": _padded([item.reading.ids for item in items]),
        "types": _padded([item.reading.types for item in items]),
        "mask": _padded([(1,) * len(item.reading.ids) for item in items]),
        "first": _padded([[word.first for word in row] for row in words]),
        "last": _padded([[word.last for word in row] for row in words]),
        "word_labels": _padded([item.wanted for item in items]).float(),
        "gate_labels": torch.tensor([item.history_probability for item in items]).float(),
    }


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64)


class TermModel(nn.Module):
    """An encoder, a linear layer over every token ("append this word") and one over the first ("history needed")."""

    def __init__(self, encoder: Any, *, dropout: float = 0.1, positive: float = 3.0, gate_weight: float = 0.5) -> None:
        super().__init__()
        width = int(encoder.config.hidden_size)
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.term = nn.Linear(width, 1)
        self.gate = nn.Linear(width, 1)
        self.positive, self.gate_weight = positive, gate_weight

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        mask: Tensor,
        first: Tensor | None = None,
        last: Tensor | None = None,
        word_labels: Tensor | None = None,
        gate_labels: Tensor | None = None,
    ) -> Any:
        """Logits of the tokens `(n, longest)` and of the gate `(n,)`; the `loss` of a whole `batch`."""
        states = self.encoder(input_ids=ids, token_type_ids=types, attention_mask=mask, return_dict=False)[0]
        hidden = self.dropout(states)
        # Sums over a whole history need more digits than half precision has.
        tokens, gate = self.term(hidden)[..., 0].float(), self.gate(hidden[:, 0])[..., 0].float()
        if first is None or last is None or word_labels is None or gate_labels is None:
            return tokens, gate
        loss = self.gate_weight * nn.functional.binary_cross_entropy_with_logits(gate, gate_labels)
        if (words := last > 0).any():
            logits, weight = word_means(tokens, first, last)[words], torch.tensor(self.positive, device=tokens.device)
            loss = loss + nn.functional.binary_cross_entropy_with_logits(logits, word_labels[words], pos_weight=weight)
        return {"loss": loss}


def word_means(tokens: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """The mean logit of every word's tokens `(n, most words)`."""
    sums = torch.cat([torch.zeros_like(tokens[:, :1]), tokens.cumsum(1)], 1)
    return (sums.gather(1, last) - sums.gather(1, first)) / (last - first).clamp(min=1)


def _without_pooling(base: str, **options: Any) -> Any:
    from transformers import AutoModel
    from transformers.utils.logging import get_verbosity, set_verbosity

    verbosity = get_verbosity()
    # It reports the pooling layer that is left out, which is as it should be.
    set_verbosity(logging.ERROR)
    try:
        return AutoModel.from_pretrained(base, add_pooling_layer=False, **options)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot load the encoder {base!r} to train from: {error}") from error
    finally:
        set_verbosity(verbosity)


def pretrained(base: str, frozen: int = 0) -> Any:
    """A BERT-like encoder from a folder or of a hub id, with a type for every kind of text.

    The vectors of words stay as they are: a few thousand questions would only move the words that they hold.
    With `frozen` above 0 so do all embeddings and so many layers, which halves the cost of a step.
    Raises TrainingError.
    """
    encoder = _without_pooling(base, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    old = encoder.embeddings.token_type_embeddings.weight.data
    types = nn.Embedding(TYPES, old.shape[1])
    # Apart from the beginning, since frozen layers never learn to tell them apart, and by no more than words are.
    apart = 0.5 * float(encoder.embeddings.word_embeddings.weight.data.std())
    types.weight.data.copy_(old[:1].expand(TYPES, -1) + apart * types.weight.data)
    encoder.embeddings.token_type_embeddings = types
    encoder.config.type_vocab_size = TYPES
    encoder.embeddings.word_embeddings.weight.requires_grad = False
    if frozen:
        for module in (encoder.embeddings, *encoder.encoder.layer[:frozen]):
            module.requires_grad_(False)
    return encoder


def write_onnx(model: TermModel, path: Path) -> None:
    """The model as it is served."""
    write_int8(model, path, INPUTS, {name: name == "terms" for name in OUTPUTS})
