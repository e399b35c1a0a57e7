"""What a recipe says of a cross-encoder's model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rewriter.training.recipe import ModelPart
from text.asking import AskingLengths


class RerankerModelPart(ModelPart):
    """A cross-encoder to train: a folder (ONNX too), a registered name, or a hub id."""

    family: Literal["reranker"]
    base: str = "ms-marco-minilm-l12"
    frozen: int = Field(0, ge=0)
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    group: int = Field(8, ge=2)
    """Passages of a question that are read together, one of them relevant."""
    passage_tokens: int = Field(160, ge=16, le=400)
    """A passage is cut to so many while training; serving reads further."""
    lengths: dict[str, int] = Field({})
    """Tokens of the parts of a question, as `text.asking` names them."""
    standalone: float = Field(0.15, ge=0, lt=1)
    """Share of follow-ups that are asked by their stand-alone form, without their conversation."""
    label: float = Field(0.5, ge=0, le=1)
    """What the judgement weighs beside the teacher, in the distribution over a question's passages."""
    scale: float = Field(0.05, ge=0)
    """How strongly scores are kept at the teacher's level, so that what was calibrated on it still fits."""

    @property
    def asking(self) -> AskingLengths:
        """The lengths in tokens, defaults filled in."""
        return AskingLengths(**self.lengths)

    @model_validator(mode="after")
    def _known(self) -> RerankerModelPart:
        if unknown := set(self.lengths) - set(AskingLengths.__slots__):
            raise ValueError(f"unknown lengths {', '.join(sorted(unknown))}")
        return self
