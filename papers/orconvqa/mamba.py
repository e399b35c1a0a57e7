"""Mamba as a family that can be trained; torch judges it from its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papers.orconvqa.families import TorchEngine
from rewriter.conditional import WEIGHTS, ConditionalEngine, Form
from rewriter.conditional_training import ConditionalFamily
from rewriter.onnx_weights import TOKENIZER


class MambaFamily(ConditionalFamily):
    """A conditional rewriter that no chat can be served by: CTranslate2 does not know the architecture."""

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Nothing is converted."""
        return {}, [folder / TOKENIZER, folder / WEIGHTS / "model.safetensors"]

    def engine(self, folder: Path, form: Form) -> ConditionalEngine:
        """Torch, from the weights."""
        return TorchEngine.open(folder / WEIGHTS, form)
