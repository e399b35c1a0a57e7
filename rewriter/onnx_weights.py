"""int8 ONNX files of torch models: writing one, and its weights as numbers to train from.

Each of those is off by half a step of its scale at most, which a few steps of training make good.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rewriter.protocol import RunError, TrainingError
from text.files import replacing
from text.modules import need_extra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer


OPSET = 17


def write_int8(model: Any, path: Path, inputs: Sequence[str], outputs: Mapping[str, bool]) -> None:
    """A model's forward pass with int8 weights, one scale a column; activations are quantised as they come.

    `inputs` are `(texts, longest)` int64; `outputs` says of each whether it has a value for every token too.
    """
    need_extra("train", "Exporting", "onnx")
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model.eval()
    # Zeros are a kind of text that every encoder knows.
    example = tuple(torch.full((2, 8), 0 if "type" in name else 1) for name in inputs)
    by_token = {**dict.fromkeys(inputs, True), **outputs}
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, prepared = Path(scratch) / "plain.onnx", Path(scratch) / "prepared.onnx"
        torch.onnx.export(
            model,
            example,
            str(plain),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: {0: "n", 1: "longest"} if each else {0: "n"} for name, each in by_token.items()},
        )
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        quantize_dynamic(str(prepared), str(path), weight_type=QuantType.QInt8, per_channel=True)


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


TOKENIZER = "tokenizer.json"


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of that file. Raises RunError where it is missing or none."""
    from tokenizers import Tokenizer

    if not path.is_file():
        raise RunError(f"{path} is missing: the rewriter has no tokenizer. Train or copy the rewriter again.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise RunError(f"{path} is no tokenizer ({error}). Train or copy the rewriter again.") from error


def put_tokenizer(base: str, folder: Path, callback: Callable[[str], None]) -> None:
    """Copy the `tokenizer.json` of `base`, a folder or a hub id, into a run's folder, unless it lies there already.

    Raises TrainingError.
    """
    if (folder / TOKENIZER).is_file():
        return
    callback(f"opening {base}")
    with replacing(folder / TOKENIZER) as draft:
        shutil.copyfile(_fetched(base), draft)


def _fetched(base: str) -> Path:
    local = Path(base) / TOKENIZER
    if Path(base).is_dir():
        return local
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(base, TOKENIZER))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise TrainingError(f"cannot fetch the tokenizer of {base!r}: {error}") from error
