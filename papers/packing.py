"""A trained cross-encoder as the files that come with Anaphora: without the weights that its base's file holds.

usage: python -m papers.packing RUN BASE FOLDER
       python -m papers.packing --unpack PACKED BASE FOLDER

Frozen layers take the base's own int8 weights, and each tensor whose bytes are in the base's file is read from there
when the model is opened (`index.rerank.load_over`). Unpacked, its weights are a folder to train on from.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from papers.cross_encoder.family import RERANKERS
from papers.cross_encoder.training import ONNX, from_onnx, write_onnx
from rewriter.load import RunKind
from rewriter.onnx_weights import TOKENIZER, multiplied_out
from rewriter.protocol import TrainingError
from text.files import write_json
from text.modules import need_extra

STATES = "states"
SHARED_BYTES = 4_000
"""Smaller tensors are not shared with the base: they are not worth a look elsewhere."""
DESCRIBED = ("family", "format", "recipe", "base", "lengths", "trained", "seconds", "hardware", "metrics", "created")


def pack(run: Path, base: Path, folder: Path, kind: RunKind = RERANKERS, suffix: str = "conversations") -> int:
    """Write a run's `model.onnx` and `reranker.json` into `folder`, without what the ONNX file in `base` holds.

    A packed cross-encoder also shows the states of its tokens. A run of another `kind` has its own description, and its
    name ends with `suffix`. Returns how many bytes of weights are shared. Raises TrainingError where it has layers that
    the base has not.
    """
    need_extra("train", "Packing", "onnx")
    import onnx
    from onnx.external_data_helper import set_external_data

    described = json.loads((run / kind.description).read_text("utf-8"))
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
    if kind == RERANKERS:
        # States of the tokens are shown, for heads that were trained on them: after three quarters of the layers, and
        # after all.
        layers = 1 + max(int(place.partition("/layer.")[2].partition("/")[0] or 0) for place in _weights(own.graph))
        after = (max(3 * layers // 4, 1), layers)
        state = "/bert/encoder/layer.{}/output/LayerNorm/LayerNormalization_output_0"
        _show(own.graph, [state.format(layer - 1) for layer in after], STATES)
    _shorten_names(own.graph)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ONNX).write_bytes(own.SerializeToString())
    names = {"name": f"{base.name}-{suffix}", "base_sha256": hashlib.sha256(whole).hexdigest()}
    write_json(folder / kind.description, names | {name: described[name] for name in DESCRIBED if name in described})
    return shared


def unpack(packed: Path, base: Path, folder: Path) -> None:
    """Write the weights of a packed cross-encoder into `folder`, as transformers reads them, with the tokenizer.

    Names are lost in packing, and the order of the nodes is not: a fresh export of the base has them. Raises
    TrainingError where the packed one has other nodes than that.
    """
    need_extra("train", "Unpacking", "onnx")
    import onnx
    import torch

    model = from_onnx(base / ONNX)
    with TemporaryDirectory() as scratch:
        named = Path(scratch) / ONNX
        write_onnx(model, named)
        fresh, own = onnx.load(str(named)), onnx.load(str(packed / ONNX), load_external_data=False)
        whole = (base / ONNX).read_bytes()
        held = {tensor.name: tensor for tensor in own.graph.initializer}
        for tensor in held.values():
            if tensor.external_data:
                at = {entry.key: int(entry.value) for entry in tensor.external_data if entry.key != "location"}
                tensor.raw_data = whole[at["offset"] : at["offset"] + at["length"]]
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
        names = dict[str, str]()
        for theirs, ours in zip(fresh.graph.node, own.graph.node, strict=False):
            if theirs.op_type != ours.op_type:
                raise TrainingError(f"{packed} was not packed over {base}: its nodes differ.")
            names.update(zip(theirs.input, ours.input, strict=True))
        for tensor in fresh.graph.initializer:
            name = tensor.name
            tensor.CopyFrom(held[names[name]])
            tensor.name = name
        onnx.save(fresh, str(named))
        weights = {name: torch.tensor(value) for name, value in multiplied_out(named)}
    # A bias of 0 is exported as a constant that other nodes use, too.
    model.load_state_dict({"classifier.bias": torch.zeros(1), **weights})
    model.config.return_dict = True
    model.save_pretrained(folder)
    shutil.copyfile(base / TOKENIZER, folder / TOKENIZER)


def _show(graph: Any, values: Sequence[str], name: str) -> None:
    """Make values of an `onnx.GraphProto`, joined by their last axis, an output called `name`.

    Raises ValueError where it has no such value.
    """
    from onnx.helper import make_node
    from onnx.onnx_pb import ValueInfoProto

    outputs = {output for node in graph.node for output in node.output}
    if missing := [value for value in values if value not in outputs]:
        raise ValueError(f"the graph has no value called {missing[0]!r}")
    graph.node.append(make_node("Concat", list(values), [name], axis=-1))
    graph.output.append(ValueInfoProto(name=name))


def _as_before(own: object, theirs: object, frozen: int) -> None:
    """Put the base's int8 weights into the layers that were not trained; both graphs are `onnx.GraphProto`s."""
    held = {item.name: item for item in theirs.initializer}  # type: ignore[attr-defined]
    mine = {item.name: item for item in own.initializer}  # type: ignore[attr-defined]
    before, after = _weights(theirs), _weights(own)
    if not set(after) <= set(before):
        raise TrainingError("The run and its base differ in their layers: pack it over the model it was trained from.")
    for layer, weight in after.items():
        place = layer.partition("/encoder/layer.")[2].partition("/")[0]
        if place and int(place) < frozen:
            for part in ("quantized", "scale", "zero_point"):
                mine[f"{weight}_{part}"].CopyFrom(held[f"{before[layer]}_{part}"])
                mine[f"{weight}_{part}"].name = f"{weight}_{part}"


def _shorten_names(graph: object) -> None:
    """Number the values inside an `onnx.GraphProto`, and take its nodes' names: exported ones take 200 kB."""
    outside = {value.name for value in (*graph.input, *graph.output)}  # type: ignore[attr-defined]
    numbered = dict[str, str]()

    def short(name: str) -> str:
        return name if not name or name in outside else numbered.setdefault(name, f"{len(numbered):x}")

    for tensor in graph.initializer:  # type: ignore[attr-defined]
        tensor.name = short(tensor.name)
    for node in graph.node:  # type: ignore[attr-defined]
        node.input[:], node.output[:] = [short(name) for name in node.input], [short(name) for name in node.output]
        node.ClearField("name")
    del graph.value_info[:]  # type: ignore[attr-defined]


def _weights(graph: object) -> dict[str, str]:
    """The weight of each layer by the layer's place in the model, such as `bert/encoder/layer.0/output/dense`."""
    return {
        node.name.strip("/").rpartition("/")[0]: node.input[1].removesuffix("_quantized")
        for node in graph.node  # type: ignore[attr-defined]
        if node.op_type == "MatMulInteger"
    }


if __name__ == "__main__" and sys.argv[1] == "--unpack":
    unpack(*map(Path, sys.argv[2:5]))
elif __name__ == "__main__":
    run_path, base_path, folder_path = map(Path, sys.argv[1:4])
    print(f"{pack(run_path, base_path, folder_path):,} bytes are the base's")
