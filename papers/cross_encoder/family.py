"""The cross-encoder as a family that `rewriter.training` trains: its part of a recipe."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from index.rerank import CONVERSATIONAL
from rewriter.load import RunKind
from rewriter.recipe import FAMILIES, ModelPart
from text.prompts import AskingLengths

RERANKERS = RunKind("rerankers", CONVERSATIONAL, "cross-encoder")


class RerankerModelPart(ModelPart):
    """A cross-encoder to train: a folder (ONNX too), a registered name, or a hub id."""

    kind: ClassVar[RunKind] = RERANKERS
    family: Literal["reranker"]
    base: str = "ms-marco-minilm-l12"
    frozen: int = Field(0, ge=0)
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    group: int = Field(8, ge=2)
    """Passages of a question that are read together, one of them relevant."""
    passage_tokens: int = Field(160, ge=16, le=400)
    """A passage is cut to so many while training; serving reads further."""
    lengths: dict[Literal["question", "words", "asked", "answered"], int] = Field({})
    """Tokens of the parts of a question."""
    standalone: float = Field(0.15, ge=0, lt=1)
    """Share of follow-ups that are asked by their stand-alone form, without their conversation."""
    label: float = Field(0.5, ge=0, le=1)
    """Weight of the judgement beside the teacher, in the distribution over a question's passages."""
    scale: float = Field(0.05, ge=0)
    """How strongly scores are kept at the teacher's level, so that what was calibrated on it still fits."""

    @property
    def asking(self) -> AskingLengths:
        """The lengths in tokens, defaults filled in."""
        return AskingLengths(**self.lengths)


FAMILIES["reranker"] = (RerankerModelPart, "papers.cross_encoder.training:RerankerFamily")
"""Importing this module lets `rewriter.training` know the family."""
