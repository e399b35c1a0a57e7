"""The trained cross-encoder as an int8 ONNX file, and its scores as they will be served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rewriter.errors import TrainingError
from rewriter.onnx_weights import write_int8

if TYPE_CHECKING:
    from rewriter.reranking.data import RankedGroup

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "logits"
_BATCH = 8


def write_onnx(encoder: Any, path: Path) -> None:
    """The model as it is served."""
    encoder.config.return_dict = False  # the exporter wants a tuple
    write_int8(encoder, path, INPUTS, {OUTPUT: False})


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
