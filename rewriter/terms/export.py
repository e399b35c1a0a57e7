"""The trained model as an int8 ONNX file with everything serving needs beside it."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rewriter.load import DESCRIPTION, FORMAT
from rewriter.terms.reading import TOKENIZER
from rewriter.terms.scoring import INPUTS, MODEL, OUTPUTS
from text.extras import need_extra
from text.files import write_json

if TYPE_CHECKING:
    from rewriter.terms.model import TermModel
    from rewriter.terms.recipe import Recipe

OPSET = 17


def export(model: TermModel, tokenizer: Path, folder: Path, recipe: Recipe, gate: tuple[float, float]) -> None:
    """Write the model, the tokenizer and `rewriter.json` (last) into `folder`.

    `gate` is scale and shift of the gate's logit. Raises MissingExtra without the libraries that quantise.
    """
    write_onnx(model, folder / MODEL)
    if tokenizer.resolve() != (folder / TOKENIZER).resolve():
        shutil.copyfile(tokenizer, folder / TOKENIZER)
    description = {
        "family": "terms",
        "format": FORMAT,
        "threshold": recipe.threshold,
        "gate_threshold": recipe.gate_threshold,
        "gate_scale": round(gate[0], 4),
        "gate_shift": round(gate[1], 4),
    }
    write_json(folder / DESCRIPTION, description)


def write_onnx(model: TermModel, path: Path) -> None:
    """The model's forward pass with int8 weights; activations are quantised as they come."""
    import torch

    need_extra("train", "Exporting", "onnx")
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model.eval()
    example = torch.ones(2, 8, dtype=torch.int64)
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, prepared = Path(scratch) / "plain.onnx", Path(scratch) / "prepared.onnx"
        torch.onnx.export(
            model,
            (example, torch.zeros_like(example), example),
            str(plain),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=list(OUTPUTS),
            dynamic_axes={**{name: {0: "n", 1: "longest"} for name in (*INPUTS, "terms")}, "gate": {0: "n"}},
        )
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(str(prepared), str(path), weight_type=QuantType.QInt8, per_channel=True)
