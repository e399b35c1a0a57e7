"""Examples as a conditional model is trained on them: token ids and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter import guard
from rewriter.examples import RewriteExample
from rewriter.load import Serving, load_rewriter, packaged_folder
from rewriter.protocol import Rewrite, Rewriter, RunError

if TYPE_CHECKING:
    import torch

    from rewriter.conditional.form import Form
    from rewriter.protocol import Rewriter


def open_words(serving: Serving = Serving()) -> Rewriter:  # noqa: B008  (frozen)
    """The packaged term rewriter. Raises RunError where an installation has none."""
    folder = packaged_folder()
    if folder is None:
        raise RunError("This installation has no packaged rewriter whose words could be read: install it again.")
    return load_rewriter(folder, serving)


def hint(rewrite: Rewrite | None) -> str:
    """The words a model reads after the question."""
    return " ".join(term.text for term in rewrite.expansion) if rewrite else ""


def learnable(examples: Sequence[RewriteExample], words: Rewriter) -> Iterator[tuple[RewriteExample, str]]:
    """The examples that such a model learns from, each with its hint."""
    for example in examples:
        if example.history and not guard.check(example.conversation, example.question, example.rewrite):
            rewrite = words.rewrite(example.conversation, example.question)
            if rewrite.decision == "expand":
                yield example, hint(rewrite)


IGNORED = -100
"""The label that carries no loss."""


class ConditionalFeatures:
    """Tokenised examples, in their order; items are `{"input_ids", "labels"}` of plain lists.

    With `words`, only what is learned with its hints (`rewriter.conditional.features`), and always in full.
    """

    def __init__(self, examples: Sequence[RewriteExample], form: Form, words: Rewriter | None = None) -> None:
        # A weight above one repeats the same object.
        unique = list({id(example): example for example in examples}.values())
        read = ((example, "") for example in unique) if words is None else learnable(unique, words)
        rows: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        for example, hint in read:
            source = form.source(example.conversation, example.question, hint)
            target = form.target(example.rewrite if example.needs_rewrite or words is not None else None)
            rows[id(example)] = (np.array(source, dtype=np.int32), np.array(target, dtype=np.int32))
        self._rows = [rows[id(example)] for example in examples if id(example) in rows]
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


def collate(batch: Sequence[dict[str, list[int]]], pad: int, cut: bool = False) -> dict[str, torch.Tensor | int]:
    """Pads a batch on the right: ids with `pad`, the mask with 0, labels with `IGNORED`.

    With `cut` a decoder is asked for logits, and given labels, from where the first target begins: those of the
    sources carry no loss, and at a large vocabulary cost more than many a layer.
    """
    import torch

    ids = [item["input_ids"] for item in batch]
    labels = torch.tensor(_padded([item["labels"] for item in batch], IGNORED))
    tensors: dict[str, torch.Tensor | int] = {
        "input_ids": torch.tensor(_padded(ids, pad)),
        "attention_mask": torch.tensor(_padded([[1] * len(row) for row in ids], 0)),
    }
    if not cut:
        return tensors | {"labels": labels}
    # The logits before a token foretell it.
    width = labels.shape[1] - max(0, int((labels != IGNORED).any(0).nonzero()[0]) - 1)
    return tensors | {"labels": labels[:, -width:], "logits_to_keep": width}


def _padded(rows: list[list[int]], value: int) -> list[list[int]]:
    longest = max(len(row) for row in rows)
    return [row + [value] * (longest - len(row)) for row in rows]
