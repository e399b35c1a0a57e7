"""Examples as a model is trained on them: token ids, labels, batches of like length in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter.examples import RewriteExample

if TYPE_CHECKING:
    import torch

    from rewriter.conditional.form import Form

IGNORED = -100
"""The label that carries no loss."""
SORTED_BATCHES = 50
"""So many batches are sorted by length at a time: little padding, and still a random order."""


class Features:
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


class Collator:
    """Pads a batch on the right: ids with `pad`, the mask with 0, labels with `IGNORED`."""

    def __init__(self, pad: int) -> None:
        self._pad = pad

    def __call__(self, batch: Sequence[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        import torch

        ids = [item["input_ids"] for item in batch]
        labels = [item["labels"] for item in batch]
        return {
            "input_ids": torch.tensor(_padded(ids, self._pad)),
            "attention_mask": torch.tensor(_padded([[1] * len(row) for row in ids], 0)),
            "labels": torch.tensor(_padded(labels, IGNORED)),
        }


class LengthSampler:
    """Indices of one epoch: shuffled, then batched with others of their length, then the batches shuffled.

    The order depends on `seed` and the epoch alone, so a run that goes on finds its place again.
    """

    def __init__(self, features: Features, batch: int, seed: int) -> None:
        self._features = features
        self._batch = batch
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the data loader at the start of each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._features)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self._seed}:{self._epoch}")
        order = list(range(len(self._features)))
        rng.shuffle(order)
        window = self._batch * SORTED_BATCHES
        batches = list[list[int]]()
        for start in range(0, len(order), window):
            part = sorted(order[start : start + window], key=self._features.length)
            batches += [part[i : i + self._batch] for i in range(0, len(part), self._batch)]
        # A short batch in the middle would shift all that follow it.
        whole = [batch for batch in batches if len(batch) == self._batch]
        rest = [batch for batch in batches if len(batch) < self._batch]
        rng.shuffle(whole)
        for batch in whole + rest:
            yield from batch


def _padded(rows: list[list[int]], value: int) -> list[list[int]]:
    longest = max(len(row) for row in rows)
    return [row + [value] * (longest - len(row)) for row in rows]
