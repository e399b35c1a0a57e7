"""What the third head learns: the vector that an encoder gives the written stand-alone question.

The teacher is the bare encoder that training begins with, left as it is: the vectors of passages come from it too, so
that a vector made by the head searches an index that this encoder made (Yu et al. 2021, ConvDR). Beside the vector
itself the head learns which passages of a pool are near it, and how near.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rewriter.errors import TrainingError
from rewriter.tokenizer_file import read_tokenizer

POOL = 8192
"""Passages to rank, at most."""
TEMPERATURE = 0.05
DISTANCE_WEIGHT, RANKING_WEIGHT = 2.0, 0.5
WINDOW = 128
"""Tokens the teacher reads of a text."""
BATCH = 32


def bare(base: str, **options: Any) -> Any:
    """A BERT-like encoder from a folder or of a hub id, without its pooling layer. Raises TrainingError."""
    from transformers import AutoModel
    from transformers.utils.logging import get_verbosity, set_verbosity

    said = get_verbosity()
    # It reports the pooling layer that is left out, which is as it should be.
    set_verbosity(logging.ERROR)
    try:
        return AutoModel.from_pretrained(base, add_pooling_layer=False, **options)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot load the encoder {base!r} to train from: {error}") from error
    finally:
        set_verbosity(said)


class QuestionTeacher:
    """A sentence encoder with mean pooling; remembers the vectors it gave."""

    def __init__(self, base: str, tokenizer: Path) -> None:
        self._encoder = bare(base).eval()
        self._tokenizer = read_tokenizer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(WINDOW)
        self._known: dict[str, Tensor] = {}

    def vectors(self, texts: Sequence[str]) -> Tensor:
        """`(len(texts), width)` float32, normalised."""
        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            self._known.update(zip(part, self._encode(part), strict=True))
        return torch.stack([self._known[text] for text in texts])

    def _encode(self, texts: list[str]) -> Tensor:
        encoded = self._tokenizer.encode_batch(texts)
        longest = max(len(one.ids) for one in encoded)
        ids, mask = torch.zeros(2, len(texts), longest, dtype=torch.int64)
        for row, one in enumerate(encoded):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            mask[row, : len(one.ids)] = 1
        with torch.inference_mode():
            states = self._encoder(input_ids=ids, attention_mask=mask, return_dict=False)[0]
            return normalised((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).clone()


def normalised(vectors: Tensor) -> Tensor:
    """Of length 1."""
    return nn.functional.normalize(vectors.float(), dim=-1)


def meaning_loss(made: Tensor, written: Tensor, pool: Tensor) -> Tensor:
    """How far vectors `(n, width)` are from those of the written questions, and how they rank the pool's passages."""
    distance = (1 - (made * written).sum(-1)).mean()
    ranking = nn.functional.kl_div(
        (made @ pool.T / TEMPERATURE).log_softmax(-1),
        (written @ pool.T / TEMPERATURE).log_softmax(-1),
        reduction="batchmean",
        log_target=True,
    )
    return DISTANCE_WEIGHT * distance + RANKING_WEIGHT * ranking
