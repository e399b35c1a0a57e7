"""The trained model as an int8 ONNX file."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rewriter.terms.scoring import INPUTS, OUTPUTS
from text.extras import need_extra

if TYPE_CHECKING:
    from rewriter.terms.model import TermModel

OPSET = 17


def write_onnx(model: TermModel, path: Path) -> None:
    """The model's forward pass with int8 weights; activations are quantised as they come."""
    need_extra("train", "Exporting", "onnx")
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model.eval()
    example = torch.ones(2, 8, dtype=torch.int64)
    by_token = (*INPUTS, "terms")
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
            dynamic_axes={
                name: {0: "n", 1: "longest"} if name in by_token else {0: "n"} for name in (*INPUTS, *OUTPUTS)
            },
        )
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(str(prepared), str(path), weight_type=QuantType.QInt8, per_channel=True)
