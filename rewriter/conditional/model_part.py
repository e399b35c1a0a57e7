"""What a recipe says of the model of a conditional rewriter, or of a chat model that becomes one."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rewriter.conditional.form import Lengths
from rewriter.training.recipe import ModelPart


class ConditionalModelPart(ModelPart):
    """`base` is a hub id, a folder, a GGUF file, or `config:<size>` with a vocabulary of its own.

    `copies` writes a circuit that copies the question into a fresh T5 (`rewriter.conditional.copying`). With `words`
    the packaged term rewriter decides, and the model reads the words it found (`rewriter.conditional.hinted`).
    """

    takes_lora: ClassVar[bool] = True
    family: Literal["t5", "causal", "reader"] = "t5"
    vocabulary: int = Field(8000, ge=300)
    dropout: float = Field(0.1, ge=0, lt=1)
    copies: bool = False
    words: bool = False
    lengths: dict[str, int] = Field({})

    @property
    def kind(self) -> Literal["t5", "causal"]:
        """An encoder-decoder, or a decoder alone."""
        return "causal" if self.family == "causal" else "t5"

    @property
    def bounds(self) -> Lengths:
        """The lengths in tokens, defaults filled in."""
        return Lengths(**self.lengths)

    @model_validator(mode="after")
    def _known(self) -> ConditionalModelPart:
        if unknown := set(self.lengths) - set(Lengths().as_dict()):
            raise ValueError(f"unknown lengths {', '.join(sorted(unknown))}")
        if self.copies and not (self.kind == "t5" and self.base.startswith("config:")):
            raise ValueError("`copies` is for fresh weights of the family t5")
        if self.words and self.family == "reader":
            raise ValueError("`words` is for rewriters")
        return self


class ReaderModelPart(ConditionalModelPart):
    """A passage is read as an assistant's message, so `lengths` are longer; `decoder` is a base without an encoder."""

    family: Literal["reader"]
    decoder: bool = False

    @property
    def kind(self) -> Literal["t5", "causal"]:
        return "causal" if self.decoder else "t5"

    @property
    def bounds(self) -> Lengths:
        return Lengths(**{"source": 448, "target": 48, "question": 64, "assistant": 376, "turns": 1} | self.lengths)


class ChatModelPart(ModelPart):
    """`base` is an instruct model with a chat template: a hub id, a folder, or a GGUF file; `dtype` is its own in
    training, where what is learned has 32 bits. `target` bounds an answer, in tokens; `turns` messages are shown."""

    takes_lora: ClassVar[bool] = True
    needs_lora: ClassVar[bool] = True
    family: Literal["chat"]
    dtype: Literal["float32", "bfloat16"] = "float32"
    target: int = Field(64, ge=8)
    turns: int = Field(6, ge=1)

    @property
    def bounds(self) -> Lengths:
        """As `ConditionalModelPart.bounds`; the rest is bounded in characters, as the prompt's parts are."""
        return Lengths(target=self.target, turns=self.turns)
