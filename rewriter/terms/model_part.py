"""What a recipe says of a term rewriter's model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rewriter.training.recipe import ModelPart


class TermModelPart(ModelPart):
    """A BERT-like encoder to train, and how.

    `longer_answers` is the share of answers that get further sentences of their dialog, since people's systems talk
    longer than the dialogs do. `dropout` stands before the heads only. `positive` is the weight of words to be appended
    over those that are not, `gate_weight` that of the second head's loss.
    """

    family: Literal["terms"]
    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    start: str = ""
    """A finished term rewriter to go on from, made from the same encoder: its folder, or `packaged`."""
    frozen: int = Field(0, ge=0)
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    head_learning_rate: float = Field(1e-3, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    positive: float = Field(3.0, gt=0)
    gate_weight: float = Field(0.5, ge=0)
    longer_answers: float = Field(0.25, ge=0, lt=1)
    shifted: float = Field(0.15, ge=0, lt=1)
    """So many questions more, of all there are, stand alone after the conversation of another dialog."""
    threshold: float = Field(0.4, gt=0, lt=1)
    """A word is appended from this probability on."""
    gate_threshold: float = Field(0.5, gt=0, lt=1)
    """From this probability on, a question counts as one that needs its history."""
