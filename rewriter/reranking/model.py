"""The cross-encoder in training, in torch: groups of pairs in, the loss of their order out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rewriter.reranking.rows import RankedGroup

if TYPE_CHECKING:
    from rewriter.reranking.rows import RankedGroup


CHUNK = 8
"""So many pairs of like length are read at once, so that little of it is padding."""


_NOTHING = -1e4


def batch(groups: Sequence[RankedGroup], chunk: int = CHUNK) -> dict[str, Any]:
    """Groups as the model's arguments.

    `ids` and `types` are lists of `(at most `chunk`, longest)` int64, padded with zeros, the pairs sorted by length;
    `order` `(pairs,)` gives the position of each pair in the concatenated groups. `relevant`, `scores` and `there` are
    `(groups, most passages)`: judgements, the teacher's logits, and which places hold a passage at all; `taught`
    `(groups,)` says which groups have a teacher.
    """
    pairs = [pair for group in groups for pair in group.pairs]
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
    chunks = [[pairs[n] for n in order[start : start + chunk]] for start in range(0, len(order), chunk)]
    most = max(len(group.pairs) for group in groups)
    return {
        "ids": [_padded([ids for ids, _ in part]) for part in chunks],
        "types": [_padded([types for _, types in part]) for part in chunks],
        "order": torch.tensor(order),
        "relevant": _rows([group.relevant for group in groups], most),
        "scores": _rows([group.scores or () for group in groups], most),
        "there": _rows([(1,) * len(group.pairs) for group in groups], most).bool(),
        "taught": torch.tensor([group.scores is not None for group in groups]),
    }


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.int64)


def _rows(rows: Sequence[Sequence[float]], most: int) -> Tensor:
    return torch.tensor([[*(float(value) for value in row), *[0.0] * (most - len(row))] for row in rows])


class RankingModel(nn.Module):
    """A cross-encoder that learns which of a question's passages come first.

    The wanted distribution over them is a mixture: `label` of it lies on the relevant ones alike, the rest as the
    teacher has it; the loss is the cross-entropy to it. `scale` times the squared difference to the teacher's logits is
    added: the order alone would let all scores drift.
    """

    def __init__(self, encoder: Any, *, label: float = 0.5, scale: float = 0.05) -> None:
        super().__init__()
        self.encoder = encoder
        self.label, self.scale = label, scale

    def forward(
        self,
        ids: list[Tensor],
        types: list[Tensor],
        order: Tensor,
        relevant: Tensor,
        scores: Tensor,
        there: Tensor,
        taught: Tensor,
    ) -> dict[str, Tensor]:
        """The `loss` of a `batch`, and its `logits` `(groups, most passages)`."""
        parts = [
            self.encoder(input_ids=ids_of, token_type_ids=kinds, attention_mask=(ids_of != 0).long())
            .logits[:, 0]
            .float()
            for ids_of, kinds in zip(ids, types, strict=True)
        ]
        flat = torch.cat(parts)
        logits = flat.new_full(there.shape, _NOTHING)
        logits[there] = torch.zeros_like(flat).index_copy(0, order, flat)
        wanted = relevant / relevant.sum(-1, keepdim=True).clamp(min=1)
        teacher = scores.masked_fill(~there, _NOTHING).softmax(-1)
        share = torch.where(taught, self.label, 1.0)[:, None]
        wanted = share * wanted + (1 - share) * teacher
        loss = -(wanted * logits.log_softmax(-1)).sum(-1).mean()
        held = there & taught[:, None]
        if self.scale and held.any():
            loss = loss + self.scale * ((logits - scores)[held] ** 2).mean()
        return {"loss": loss, "logits": logits}
