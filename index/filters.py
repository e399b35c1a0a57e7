"""`where`: which passages of a version a search may find.

A filter is read once and becomes a mask of rows that both the BM25 and the dense search obey, so that
they cannot disagree. A key matches the passage's metadata; `document_id` matches the document.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from index.query import Where
from index.records import Records

_DOCUMENT = "document_id"


class Filters:
    """Masks for one version, each metadata key read from the records once."""

    def __init__(self, records: Records, rows: int) -> None:
        self._records = records
        self._rows = rows
        self._values: dict[str, dict[Any, npt.NDArray[np.int64]]] = {}
        self._lock = threading.Lock()

    def mask(self, where: Where) -> npt.NDArray[np.bool_]:
        """`(rows,)`: True where every key has the value, or one of the values, asked for."""
        mask = np.ones(self._rows, dtype=np.bool_)
        for key, wanted in where.items():
            rows_by_value = self._rows_of(key)
            matching = np.zeros(self._rows, dtype=np.bool_)
            for value in wanted if isinstance(wanted, list | tuple | set) else [wanted]:
                matching[rows_by_value.get(_typed(value), [])] = True
            mask &= matching
        return mask

    def _rows_of(self, key: str) -> dict[Any, npt.NDArray[np.int64]]:
        with self._lock:
            if key not in self._values:
                self._values[key] = self._read(key)
            return self._values[key]

    def _read(self, key: str) -> dict[Any, npt.NDArray[np.int64]]:
        groups: dict[str, list[int]] = self._records.rows_by_value(key)
        decode: Callable[[str], Any] = json.loads
        if not groups and key == _DOCUMENT:
            groups, decode = self._records.rows_by_document(), str
        return {_typed(decode(value)): np.asarray(rows, dtype=np.int64) for value, rows in groups.items()}


def _typed(value: Any) -> tuple[bool, Any]:
    """Keeps True apart from 1, which Python takes for equal."""
    return isinstance(value, bool), value
