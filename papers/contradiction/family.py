"""The pair model as a family that `rewriter.training` trains: its part of a recipe, and its rows as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import Field

from papers.contradiction.pairs import LABELS, Pair, PairGroup
from rewriter.load import RunKind
from rewriter.training.recipe import FAMILIES, ModelPart
from server.turn.contradiction import WINDOW

if TYPE_CHECKING:
    from tokenizers import Encoding

Row: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Tokens, their sides, and the place of the label."""
SUPPORTS = RunKind("supports", "support.json", "support model")


class SupportModelPart(ModelPart):
    """The lower layers of a cross-encoder, of which the lowest stay as they are with all embeddings."""

    kind: ClassVar[RunKind] = SUPPORTS
    family: Literal["support"]
    base: str = "ms-marco-minilm-l12"
    layers: int = Field(7, ge=1)
    """So many of the base's layers, counted from below."""
    frozen: int = Field(4, ge=0)


FAMILIES["support"] = (SupportModelPart, "papers.contradiction.training:SupportFamily")
"""Importing this module lets `rewriter.training` know the family."""


class PairFeatures:
    """Groups as lists of `(ids, types, label)`, the statement first as in a cross-encoder's question, cut as served."""

    def __init__(self, groups: Sequence[PairGroup], tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        reader = Tokenizer.from_file(str(tokenizer))
        reader.no_padding()
        reader.enable_truncation(WINDOW)
        encoded = iter(
            reader.encode_batch([(pair.statement, pair.evidence) for group in groups for pair in group.pairs])
        )
        self._groups = [[_row(next(encoded), pair) for pair in group.pairs] for group in groups]

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, i: int) -> list[Row]:
        return self._groups[i]

    def length(self, i: int) -> int:
        """The tokens of its longest pair."""
        return max(len(ids) for ids, _, _ in self._groups[i])

    def set_epoch(self, epoch: int) -> None:
        """Every epoch has the same rows."""


def _row(encoding: Encoding, pair: Pair) -> Row:
    return tuple(encoding.ids), tuple(encoding.type_ids), LABELS.index(pair.label)
