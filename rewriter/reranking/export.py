"""The trained cross-encoder as an int8 ONNX file, and its scores as they will be served."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rewriter.errors import TrainingError
from text.extras import need_extra

if TYPE_CHECKING:
    from rewriter.reranking.data import RankedGroup

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "logits"
OPSET = 17
_BATCH = 8


def write_onnx(encoder: Any, path: Path) -> None:
    """The forward pass with int8 weights, one scale a column; activations are quantised as they come."""
    need_extra("train", "Exporting", "onnx")
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    encoder.eval()
    encoder.config.return_dict = False  # the exporter wants a tuple
    example = torch.ones(2, 8, dtype=torch.int64)
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, prepared = Path(scratch) / "plain.onnx", Path(scratch) / "prepared.onnx"
        torch.onnx.export(
            encoder,
            (example, example, torch.zeros_like(example)),
            str(plain),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes={**{name: {0: "n", 1: "longest"} for name in INPUTS}, OUTPUT: {0: "n"}},
        )
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(str(prepared), str(path), weight_type=QuantType.QInt8, per_channel=True)


def scores(path: Path, groups: Sequence[RankedGroup]) -> list[npt.NDArray[np.float64]]:
    """The exported model's logit of every pair, group by group. Raises TrainingError where it cannot be opened."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises bare exceptions of its own
        raise TrainingError(f"{path} cannot be opened ({error}): export the run again.") from error
    return [np.concatenate(list(_scored(session, group))) for group in groups]


def _scored(session: Any, group: RankedGroup) -> Any:
    for start in range(0, len(group.pairs), _BATCH):
        part = group.pairs[start : start + _BATCH]
        longest = max(len(ids) for ids, _ in part)
        feed = {name: np.zeros((len(part), longest), np.int64) for name in INPUTS}
        for row, (ids, types) in enumerate(part):
            feed["input_ids"][row, : len(ids)] = ids
            feed["token_type_ids"][row, : len(ids)] = types
            feed["attention_mask"][row, : len(ids)] = 1
        yield session.run([OUTPUT], feed)[0][:, 0].astype(np.float64)
