"""The conditional rewriters, T5 and causal, as families that can be trained by `rewriter.training`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from rewriter.conditional import form as run_folder
from rewriter.conditional.features import open_words
from rewriter.conditional.form import EXPORT, WEIGHTS, Lengths
from rewriter.conditional.serving import ConditionalRewriter, open_engine
from rewriter.examples import RewriteExample, read_examples
from rewriter.gate import RewriteGate
from rewriter.load import REWRITERS, Serving
from rewriter.onnx_weights import TOKENIZER, read_tokenizer
from rewriter.training.recipe import ModelPart, Recipe, Stage, Texts
from text.files import replacing

if TYPE_CHECKING:
    from rewriter.conditional.bases import Base
    from rewriter.conditional.features import ConditionalFeatures
    from rewriter.protocol import Rewriter


class ConditionalModelPart(ModelPart):
    """`base` is a hub id, a folder, a GGUF file, or `config:<size>` with a vocabulary of its own.

    `copies` writes a circuit that copies the question into a fresh T5 (`rewriter.conditional.bases`). With `words`
    the packaged term rewriter decides, and the model reads the words it found (`rewriter.conditional.features`).
    """

    takes_lora: ClassVar[bool] = True
    family: Literal["t5", "causal"] = "t5"
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
        return self


END = "end.json"


class ConditionalFamily:
    """How conditional rewriters are opened, exported and judged."""

    settings: type[ModelPart] = ConditionalModelPart
    kind = REWRITERS
    about = "It decides whether a follow-up question needs its conversation and, if so, writes it in full."

    def read(self, path: Path) -> Iterable[RewriteExample]:
        """Questions with their stand-alone form."""
        return read_examples(path)

    def open(self, recipe: Recipe, texts: Texts, folder: Path, callback: Callable[[str], None]) -> Conditional:
        """The base model, with the run's own tokenizer, which is made where there is none."""
        from rewriter.conditional.bases import open_base, open_tokenizer

        assert isinstance(recipe.model, ConditionalModelPart)
        part, saved = recipe.model, folder / TOKENIZER
        if saved.is_file():
            tokenizer = read_tokenizer(saved)
            end = str(json.loads((folder / END).read_text("utf-8")))
        else:
            callback("making the vocabulary" if part.base.startswith("config:") else f"opening {part.base}")
            tokenizer, end = open_tokenizer(part, texts, recipe.seed)
            (folder / END).write_text(json.dumps(end), "utf-8")
            with replacing(saved) as draft:
                tokenizer.save(str(draft))
        base = open_base(part, tokenizer, end, recipe.lora, recipe.seed)
        return Conditional(base, open_words() if part.words else None)

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Convert the weights for CTranslate2, where it knows the architecture."""
        from rewriter.conditional.export import export, kinds

        exports = export(folder, tuple(description.get("exports") or kinds()))
        files = [folder / TOKENIZER, *(path for path in (folder / EXPORT).rglob("*") if path.is_file())]
        if not exports:
            files += [path for path in (folder / WEIGHTS).iterdir() if path.suffix in (".json", ".safetensors")]
        return {"exports": list(exports)}, files

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RewriteExample],
        test: Sequence[RewriteExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The gate on `dev`; what is written of `test`, one turn at a time."""
        from rewriter.conditional.assess import assess, fit_gate

        run = run_folder.read(folder, description | {"gate": RewriteGate().as_dict()})
        form = run.form(folder)
        # What torch serves may be too large for anything but a GPU.
        engine = open_engine(folder, run, form, Serving(device="cpu" if run.exports else "auto"))
        words = open_words() if run.words else None
        gate = fit_gate(engine, form, dev) if words is None else RewriteGate()
        served = ConditionalRewriter(engine, form, gate, name=run.family, timeout_seconds=60.0, words=words)
        scores = assess(served, test)
        served.close()
        return {"gate": gate.as_dict()}, scores


class Conditional:
    """A conditional rewriter in training."""

    def __init__(self, base: Base, words: Rewriter | None = None) -> None:
        self.model = base.model
        self._base = base
        self._words = words

    def features(self, examples: Sequence[RewriteExample], *, train: bool) -> ConditionalFeatures:
        """Tokenised examples."""
        from rewriter.conditional.features import ConditionalFeatures

        return ConditionalFeatures(examples, self._base.form, self._words)

    def collate(self, items: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        """A batch as transformers' models take it."""
        from rewriter.conditional.features import collate

        pad = self.model.config.pad_token_id
        bare = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        cut = "logits_to_keep" in signature(bare.forward).parameters
        return collate(items, self._base.form.end if pad is None else int(pad), cut)

    def groups(self, stage: Stage) -> None:
        """All learn at the stage's rate."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the weights, low-rank ones merged into their base."""
        from rewriter.conditional.export import save_weights

        if hasattr(self.model, "merge_and_unload"):
            self.model = self.model.merge_and_unload()
        save_weights(folder, self.model, self._base.form)
        return self._described()

    def _described(self) -> dict[str, Any]:
        base = self._base
        described = {"architecture": base.architecture, "lengths": base.form.lengths.as_dict(), "end": base.end}
        return described | ({"words": True} if self._words else {})
