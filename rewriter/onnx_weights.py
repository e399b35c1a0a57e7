"""The weights of an int8 ONNX file that was exported from torch, as numbers to train from.

Each is off by half a step of its scale at most, which a few steps of training make good.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from text.extras import need_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def multiplied_out(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Each parameter of an exported int8 model by its name in torch, as float32; ValueError where the file is none."""
    need_extra("train", "Reading the weights of an ONNX file", "onnx")
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx.numpy_helper import to_array

    try:
        graph = onnx.load(str(path)).graph
    except DecodeError as error:
        raise ValueError(f"{path} is no ONNX file: {error}") from error
    held = {item.name: to_array(item) for item in graph.initializer}
    for name, value in held.items():
        if name.endswith((".weight", ".bias")) and not name.startswith("/"):
            yield name, value
    for node in graph.node:
        if node.op_type == "Gather" and node.input[0].endswith(".weight_quantized"):
            name = node.input[0].removesuffix("_quantized")
            yield name, _float(held, name)
        elif node.op_type == "MatMulInteger":
            layer = node.name.strip("/").rpartition("/")[0].replace("/", ".")
            yield f"{layer}.weight", _float(held, node.input[1].removesuffix("_quantized")).T.copy()


def _float(held: dict[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    """Weights of `(in, out)` or `(tokens, width)`; a scale for all, or one for each column."""
    steps = held[f"{name}_quantized"].astype("float32") - held[f"{name}_zero_point"].astype("float32")
    product: NDArray[np.float32] = steps * held[f"{name}_scale"].astype("float32")
    return product
