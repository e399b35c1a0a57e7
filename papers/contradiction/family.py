"""The pair model as a family that `rewriter.training` trains: its part of a recipe, and its rows as tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from papers.contradiction.pairs import LABELS, Pair, PairGroup
from rewriter.families import Features
from rewriter.load import RunKind
from rewriter.recipe import FAMILIES, ModelPart
from server.turn.support import WINDOW

if TYPE_CHECKING:
    from tokenizers import Encoding

SUPPORTS = RunKind("supports", "support.json", "support model")


class Row(NamedTuple):
    """A pair as tokens: their ids, their sides, the place of its label, and which tokens an edit has put there."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    label: int
    marks: tuple[bool, ...]


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


class PairFeatures(Features):
    """Groups as lists of rows, the statement first as in a cross-encoder's question, cut as they are served."""

    def __init__(self, groups: Sequence[PairGroup], tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        reader = Tokenizer.from_file(str(tokenizer))
        reader.no_padding()
        reader.enable_truncation(WINDOW)
        every = [(pair.statement, pair.evidence) for group in groups for pair in group.pairs]
        encoded = iter(reader.encode_batch(every))
        rows = [[_row(next(encoded), pair, group.pairs[0]) for pair in group.pairs] for group in groups]
        super().__init__(lambda epoch: rows, lambda group: max(len(row.ids) for row in group))


def _row(encoding: Encoding, pair: Pair, true: Pair) -> Row:
    spans = edited(true.statement, pair.statement) if pair.label == "contradicted" else []
    marks = tuple(
        side == 0 and any(start < last and first < end for first, last in spans)
        for side, (start, end) in zip(encoding.sequence_ids, encoding.offsets, strict=True)
    )
    return Row(tuple(encoding.ids), tuple(encoding.type_ids), LABELS.index(pair.label), marks)


def edited(true: str, turned: str) -> list[tuple[int, int]]:
    """Offsets of the words of `turned` that are not in `true`; of what was left out, those of the word behind it."""
    words = [(match.group(), match.span()) for match in re.finditer(r"\S+", turned)]
    matcher = SequenceMatcher(None, true.split(), [word for word, _ in words], autojunk=False)
    spans = []
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind != "equal" and words:
            first = min(start, len(words) - 1)
            spans += [span for _, span in words[first : max(end, first + 1)]]
    return spans
