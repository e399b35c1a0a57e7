"""ONNX files, written without the library `onnx`, which only those who train have.

A file is one protocol buffer: its numbers are those of `onnx.proto` of ONNX 1.16. The same graph is always the same
bytes, so that a file can be known by its SHA-256.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
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


@dataclass
class Graph:
    """A graph that grows by its nodes and tensors; `domains` are the operator sets it uses and their versions."""

    domains: Mapping[str, int]
    _parts: list[bytes] = field(default_factory=list)

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
        sets = [_text(1, domain) + _number(2, version) for domain, version in self.domains.items()]
        with path.open("wb") as file:
            file.write(_number(1, IR_VERSION) + _text(2, PRODUCER))
            file.writelines(_piece(8, one) for one in sets)
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
