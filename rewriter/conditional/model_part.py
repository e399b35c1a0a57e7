"""What a recipe says of a conditional rewriter's model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rewriter.conditional.form import Lengths
from rewriter.training.recipe import ModelPart


class ConditionalModelPart(ModelPart):
    """`base` is a hub id, a folder, a GGUF file, or `config:<size>` with a vocabulary of its own.

    `copies` writes a circuit that copies the question into a fresh T5 (`rewriter.conditional.copying`).
    """

    takes_lora: ClassVar[bool] = True
    family: Literal["t5", "causal"] = "t5"
    vocabulary: int = Field(8000, ge=300)
    dropout: float = Field(0.1, ge=0, lt=1)
    copies: bool = False
    lengths: dict[str, int] = Field({})

    @property
    def bounds(self) -> Lengths:
        """The lengths in tokens, defaults filled in."""
        return Lengths(**self.lengths)

    @model_validator(mode="after")
    def _known(self) -> ConditionalModelPart:
        if unknown := set(self.lengths) - set(Lengths().as_dict()):
            raise ValueError(f"unknown lengths {', '.join(sorted(unknown))}")
        if self.copies and not (self.family == "t5" and self.base.startswith("config:")):
            raise ValueError("`copies` is for fresh weights of the family t5")
        return self
