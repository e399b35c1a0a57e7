"""The pair model as a family that `rewriter.training` trains: its part of a recipe, and its rows as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from papers.contradiction.pairs import LABELS, Pair
from rewriter.load import RunKind
from rewriter.training.recipe import FAMILIES, ModelPart
from server.turn.contradiction import WINDOW

SUPPORTS = RunKind("supports", "support.json", "support model")


class SupportModelPart(ModelPart):
    """The lower layers of a cross-encoder, of which the lowest stay as they are with all embeddings."""

    kind: ClassVar[RunKind] = SUPPORTS
    family: Literal["support"]
    base: str = "ms-marco-minilm-l12"
    layers: int = Field(6, ge=1)
    """So many of the base's layers, counted from below."""
    frozen: int = Field(3, ge=0)


FAMILIES["support"] = (SupportModelPart, "papers.contradiction.training:SupportFamily")
"""Importing this module lets `rewriter.training` know the family."""


class PairFeatures:
    """Rows as `(ids, types, label)`, the statement first as in a cross-encoder's question, cut as they are served."""

    def __init__(self, pairs: Sequence[Pair], tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        reader = Tokenizer.from_file(str(tokenizer))
        reader.no_padding()
        reader.enable_truncation(WINDOW)
        encoded = reader.encode_batch([(pair.statement, pair.evidence) for pair in pairs])
        self._rows = [
            (tuple(one.ids), tuple(one.type_ids), LABELS.index(pair.label))
            for one, pair in zip(encoded, pairs, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        return self._rows[i]

    def length(self, i: int) -> int:
        """Its tokens."""
        return len(self._rows[i][0])

    def set_epoch(self, epoch: int) -> None:
        """Every epoch has the same rows."""
