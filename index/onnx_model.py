"""An ONNX transformer with its tokenizer: the forward pass that the encoder and the cross-encoder share.

It knows tokens and tensors; what the outputs mean is for `index.encoders` and `index.rerank`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from index.errors import ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Encoding

MAX_THREADS = 4
_WEIGHTS_ELSEWHERE = "session.model_external_initializers_file_folder_path"


class OnnxModel:
    """One BERT-like model on the CPU, safe to use from several threads at once.

    `max_tokens` counts special tokens. `base` is the folder of the model that this one was trained from, where it takes
    its frozen weights from that one's file. Raises ModelUnavailable where a file is missing or damaged.
    """

    def __init__(self, model: Path, tokenizer: Path, max_tokens: int, base: Path | None = None) -> None:
        for path in (model, tokenizer):
            if not path.is_file():
                raise ModelUnavailable(f"model file {path} is missing: fetch the model again")
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(MAX_THREADS, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        # Spinning wins microseconds and takes whole cores from the engine that writes the answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        if base is not None:
            options.add_session_config_entry(_WEIGHTS_ELSEWHERE, str(base.resolve()))
        try:
            self._session = onnxruntime.InferenceSession(
                str(model) if base is None else model.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            self._counter = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both libraries raise bare exceptions of their own
            raise ModelUnavailable(f"cannot load {model} with {tokenizer}: {error}: fetch the model again") from error
        self._inputs = {item.name for item in self._session.get_inputs()}
        # Set once, here: changing them later would race with other threads.
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.no_padding()
        self._counter.no_truncation()
        self._counter.no_padding()

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, special tokens left out, never truncated."""
        return len(self._counter.encode(text, add_special_tokens=False).ids)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Character span of every token of the whole text, special tokens left out."""
        return list(self._counter.encode(text, add_special_tokens=False).offsets)

    def tokenize(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[Encoding]:
        """Texts (or pairs of texts) as tokens, truncated to the window, not padded."""
        return list(self._tokenizer.encode_batch(list(texts)))

    def run(self, encoding: Encoding) -> npt.NDArray[np.float32]:
        """The model's first output for one text or pair, `(1, …)`."""
        feed: dict[str, Any] = {
            "input_ids": encoding.ids, "attention_mask": encoding.attention_mask, "token_type_ids": encoding.type_ids,
        }  # fmt: skip
        inputs = {name: np.array([feed[name]], dtype=np.int64) for name in self._inputs}
        return np.asarray(self._session.run(None, inputs)[0], dtype=np.float32)
