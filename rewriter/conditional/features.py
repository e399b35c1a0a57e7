"""Examples as a conditional model is trained on them: token ids and labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter.examples import RewriteExample

if TYPE_CHECKING:
    import torch

    from rewriter.conditional.form import Form

IGNORED = -100
"""The label that carries no loss."""


class ConditionalFeatures:
    """Tokenised examples, in their order; items are `{"input_ids", "labels"}` of plain lists."""

    def __init__(self, examples: Sequence[RewriteExample], form: Form) -> None:
        self._rows: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        seen: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        for example in examples:
            # A weight above one repeats the same object.
            if id(example) not in seen:
                source = np.array(form.source(example.conversation, example.question), dtype=np.int32)
                target = form.target(example.rewrite if example.needs_rewrite else None)
                seen[id(example)] = (source, np.array(target, dtype=np.int32))
            self._rows.append(seen[id(example)])
        self._causal = form.architecture == "causal"

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> dict[str, list[int]]:
        source, target = self._rows[i]
        if self._causal:
            ids = [*source.tolist(), *target.tolist()]
            return {"input_ids": ids, "labels": [IGNORED] * len(source) + target.tolist()}
        return {"input_ids": source.tolist(), "labels": target.tolist()}

    def length(self, i: int) -> int:
        """Tokens of an item's source; with the target's, questions to be kept would end up in batches of their own."""
        return len(self._rows[i][0])

    def set_epoch(self, epoch: int) -> None:
        """Every epoch reads the same."""


def collate(batch: Sequence[dict[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """Pads a batch on the right: ids with `pad`, the mask with 0, labels with `IGNORED`."""
    import torch

    ids = [item["input_ids"] for item in batch]
    return {
        "input_ids": torch.tensor(_padded(ids, pad)),
        "attention_mask": torch.tensor(_padded([[1] * len(row) for row in ids], 0)),
        "labels": torch.tensor(_padded([item["labels"] for item in batch], IGNORED)),
    }


def _padded(rows: list[list[int]], value: int) -> list[list[int]]:
    longest = max(len(row) for row in rows)
    return [row + [value] * (longest - len(row)) for row in rows]
