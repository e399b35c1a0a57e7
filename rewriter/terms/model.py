"""The encoder with its two heads, in torch: only training, export and the parity test need it.

Serving runs the exported ONNX file (`rewriter.terms.scoring`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rewriter.errors import TrainingError
from rewriter.terms.reading import TYPES, Reading

if TYPE_CHECKING:
    from transformers import BertConfig


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings as tensors: `ids`, `types`, `mask` are `(n, longest)` int64, padded on the right with zeros.

    `pieces` is `(words, 3)`: row, first and last token of every word of every reading, in their order.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    pieces: Tensor

    @classmethod
    def of(cls, readings: Sequence[Reading]) -> Batch:
        longest = max(len(reading.ids) for reading in readings)
        ids, types, mask = (torch.zeros(len(readings), longest, dtype=torch.int64) for _ in range(3))
        pieces: list[tuple[int, int, int]] = []
        for row, reading in enumerate(readings):
            length = len(reading.ids)
            ids[row, :length] = torch.tensor(reading.ids)
            types[row, :length] = torch.tensor(reading.types)
            mask[row, :length] = 1
            pieces += [(row, word.first, word.last) for word in reading.words]
        return cls(ids, types, mask, torch.tensor(pieces, dtype=torch.int64).reshape(-1, 3))

    def to(self, device: str) -> Batch:
        """The same on another device."""
        return Batch(*(tensor.to(device) for tensor in (self.ids, self.types, self.mask, self.pieces)))


class TermModel(nn.Module):
    """An encoder, a linear layer over every token ("append this word") and one over the first ("history needed")."""

    def __init__(self, encoder: nn.Module, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.term = nn.Linear(width, 1)
        self.gate = nn.Linear(width, 1)

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the tokens `(n, longest)` and of the gate `(n,)`."""
        hidden = self.encoder(input_ids=ids, token_type_ids=types, attention_mask=mask, return_dict=False)[0]
        hidden = self.dropout(hidden)
        return self.term(hidden)[..., 0], self.gate(hidden[:, 0])[..., 0]

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the words `(words,)`, each the mean over its tokens, and of the gate `(n,)`."""
        tokens, gate = self(batch.ids, batch.types, batch.mask)
        return word_means(tokens, batch.pieces), gate


def word_means(tokens: Tensor, pieces: Tensor) -> Tensor:
    """The mean logit of every word's tokens."""
    sums = torch.cat([torch.zeros_like(tokens[:, :1]), tokens.cumsum(1)], 1)
    rows, first, last = pieces.unbind(1)
    return (sums[rows, last] - sums[rows, first]) / (last - first)


def pretrained(base: str, frozen: int = 0) -> TermModel:
    """A BERT-like encoder from a folder or of a hub id, with fresh heads and a type for every kind of text.

    The vectors of words stay as they are: a few thousand questions would only move the words that they hold.
    With `frozen` above 0 so do all embeddings and so many layers, which halves the cost of a step.
    """
    from transformers import AutoModel
    from transformers.utils.logging import get_verbosity, set_verbosity

    said = get_verbosity()
    # It reports the pooling layer that is left out, which is as it should be.
    set_verbosity(logging.ERROR)
    try:
        encoder: Any = AutoModel.from_pretrained(
            base, add_pooling_layer=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot load the encoder {base!r} to train from: {error}") from error
    finally:
        set_verbosity(said)
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
    return TermModel(encoder, int(old.shape[1]))


def from_config(config: BertConfig) -> TermModel:
    """The same architecture with random weights."""
    from transformers import BertModel

    config.type_vocab_size = TYPES
    return TermModel(BertModel(config, add_pooling_layer=False), int(config.hidden_size))
