"""Pack a trained cross-encoder without the tensors it shares with its base.

python -m rewriter.reranking.packing RUN BASE FOLDER Frozen layers take the base's own int8 weights, and every tensor
whose bytes are in the base's file is read from there when the model is opened (`index.rerank.load_over`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from rewriter.load import RERANKERS
from rewriter.protocol import TrainingError
from rewriter.reranking.training import ONNX
from text.files import write_json
from text.modules import need_extra

SHARED_BYTES = 4_000
"""Smaller tensors are kept: they are not worth a look elsewhere."""
KEPT = ("family", "format", "recipe", "base", "lengths", "trained", "seconds", "hardware", "metrics", "created")


def pack(run: Path, base: Path, folder: Path) -> int:
    """Write a run's `model.onnx` and `reranker.json` into `folder`, without what the ONNX file in `base` holds.

    Returns how many bytes of weights are shared. Raises TrainingError where the two have not the same layers.
    """
    need_extra("train", "Packing", "onnx")
    import onnx
    from onnx.external_data_helper import set_external_data

    described = json.loads((run / RERANKERS.description).read_text("utf-8"))
    recipe = json.loads((run / "recipe.json").read_text("utf-8"))
    whole = (base / ONNX).read_bytes()
    own, theirs = onnx.load(str(run / ONNX)), onnx.load_from_string(whole)
    _as_before(own.graph, theirs.graph, recipe["model"]["frozen"])
    shared = 0
    for tensor in own.graph.initializer:
        if len(tensor.raw_data) >= SHARED_BYTES and (at := whole.find(tensor.raw_data)) >= 0:
            shared += len(tensor.raw_data)
            set_external_data(tensor, location=ONNX, offset=at, length=len(tensor.raw_data))
            tensor.ClearField("raw_data")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ONNX).write_bytes(own.SerializeToString())
    names = {"name": f"{base.name}-conversations", "base_sha256": hashlib.sha256(whole).hexdigest()}
    write_json(folder / RERANKERS.description, names | {name: described[name] for name in KEPT})
    return shared


def _as_before(own: object, theirs: object, frozen: int) -> None:
    """Put the base's int8 weights into the layers that were not trained; both graphs are `onnx.GraphProto`s."""
    held = {item.name: item for item in theirs.initializer}  # type: ignore[attr-defined]
    mine = {item.name: item for item in own.initializer}  # type: ignore[attr-defined]
    before, after = _weights(theirs), _weights(own)
    if set(before) != set(after):
        raise TrainingError("The run and its base differ in their layers: pack it over the model it was trained from.")
    for layer, weight in after.items():
        place = layer.partition("/encoder/layer.")[2].partition("/")[0]
        if place and int(place) < frozen:
            for part in ("quantized", "scale", "zero_point"):
                mine[f"{weight}_{part}"].CopyFrom(held[f"{before[layer]}_{part}"])
                mine[f"{weight}_{part}"].name = f"{weight}_{part}"


def _weights(graph: object) -> dict[str, str]:
    """The weight of each layer by the layer's place in the model, such as `bert/encoder/layer.0/output/dense`."""
    return {
        node.name.strip("/").rpartition("/")[0]: node.input[1].removesuffix("_quantized")
        for node in graph.node  # type: ignore[attr-defined]
        if node.op_type == "MatMulInteger"
    }


if __name__ == "__main__":
    print(f"{pack(*map(Path, sys.argv[1:4])):,} bytes are the base's")
