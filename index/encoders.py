"""Embedding models: texts in, L2-normalised vectors out.

A folder with `model_int8.onnx` runs on onnxruntime, without torch; any other folder or hub id is a
SentenceTransformer. Where the vectors are kept and searched is left to the collection.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from index.errors import ModelUnavailable
from text.modules import EXACT_BYTES, need_extra, unreachable

if TYPE_CHECKING:
    from tokenizers import Encoding


T = TypeVar("T")
MAX_THREADS = 4
_WEIGHTS_ELSEWHERE = "session.model_external_initializers_file_folder_path"


class OnnxModel:
    """One BERT-like model on the CPU, safe to use from several threads at once.

    `max_tokens` counts special tokens. `base` is the folder of the model that this one was trained from, where it takes
    its frozen weights from that one's file. Each text is read by one thread, and `threads` texts at a time (0: as many
    as there are processors, and at most four), which takes less time than several threads for each text. Raises
    ModelUnavailable where a file is missing or damaged.
    """

    def __init__(
        self, model: Path, tokenizer: Path, max_tokens: int, base: Path | None = None, threads: int = 0
    ) -> None:
        for path in (model, tokenizer):
            if not path.is_file():
                raise ModelUnavailable(f"model file {path} is missing: fetch the model again")
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Spinning wins microseconds and takes whole cores from the engine that writes the answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry(*EXACT_BYTES)
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
        self._readers = ThreadPoolExecutor(threads or min(MAX_THREADS, os.cpu_count() or 1), "onnx")
        self._inputs = {item.name for item in self._session.get_inputs()}
        self.outputs = tuple(item.name for item in self._session.get_outputs())
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
        return self.run_for(encoding, self.outputs[:1])[0]

    def run_for(self, encoding: Encoding, outputs: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs of these names for one text or pair, each `(1, …)`."""
        feed: dict[str, Any] = {
            "input_ids": encoding.ids, "attention_mask": encoding.attention_mask, "token_type_ids": encoding.type_ids,
        }  # fmt: skip
        inputs = {name: np.array([feed[name]], dtype=np.int64) for name in self._inputs}
        return [np.asarray(output, dtype=np.float32) for output in self._session.run(list(outputs), inputs)]

    def map(self, read: Callable[[Encoding], T], encodings: Sequence[Encoding]) -> list[T]:
        """Return `read` of each, in their order, several at a time.

        Nothing is padded, and int8 activations are scaled by the text alone, not by its neighbours.
        """
        if len(encodings) == 1:
            return [read(encodings[0])]
        # The longest first, so that no thread is left alone with one in the end.
        longest = sorted(range(len(encodings)), key=lambda n: -len(encodings[n]))
        reads = {n: self._readers.submit(read, encodings[n]) for n in longest}
        try:
            return [reads[n].result() for n in range(len(encodings))]
        finally:
            # After Ctrl-C or an error nobody waits for the rest.
            for future in reads.values():
                future.cancel()


Vectors: TypeAlias = npt.NDArray[np.float32]

ONNX_FILE = "model_int8.onnx"
DEFAULT_WINDOW = 256
CENTRE = "centre.json"
QUERY = "query"
PASSAGES = ("document", "passage")
"""The names that sentence-transformers gives to the prompts of queries and of passages."""
CACHED_VECTORS = 2048


class TextEncoder(Protocol):
    """Turns texts into vectors; safe to call from several threads at once."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), dimension)` float32, L2-normalised, in the order of the texts."""


class Encoder(TextEncoder, Protocol):
    """An embedding model."""

    name: str
    """Names the model and its precision: vectors of different names are never mixed."""
    dimension: int
    """Length of a vector."""
    max_tokens: int
    """Window of the model in tokens, special tokens counted; longer texts are cut."""
    prompt: str
    """The prompt that the model expects before a query; empty for most. `encode` adds that of passages itself."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, special tokens left out."""


class OnnxEncoder:
    """A sentence-transformers model (pooling by mean or first token, normalised) exported to int8 ONNX.

    The vectors of some models all point much the same way, so that cosines of unlike texts are high. The direction in
    the file `centre.json`, `{"centre": [...]}`, is subtracted (Mu and Viswanath 2018, "All-but-the-Top").
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        weights = folder / ONNX_FILE
        self.max_tokens = int(_said(folder / "sentence_bert_config.json", "max_seq_length", DEFAULT_WINDOW))
        pooling = folder / "1_Pooling" / "config.json"
        # As sentence-transformers writes it now, and wrote it before.
        self._first = _said(pooling, "pooling_mode", "") == "cls" or bool(_said(pooling, "pooling_mode_cls_token", 0))
        self._centre = np.array(_said(folder / CENTRE, "centre", 0.0), dtype=np.float32)
        self.prompt, self._passage = _prompts(_said(folder / "config_sentence_transformers.json", "prompts", {}))
        self._model = OnnxModel(weights, folder / "tokenizer.json", self.max_tokens, threads=threads)
        more = self._centre.tobytes() * bool(self._centre.any()) + self._passage.encode()
        fingerprint = hashlib.sha256(weights.read_bytes() + more)
        self.name = f"{folder.resolve().name}:int8:{fingerprint.hexdigest()[:8]}"
        self.dimension = int(self.encode(["dimension"]).shape[1])
        self._folder = folder

    def __reduce__(self) -> tuple[Callable[[str], Encoder], tuple[str]]:
        return load_encoder, (str(self._folder),)

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        texts = _prompted(texts, self.prompt, self._passage)
        pooled = np.stack(self._model.map(self._pooled, self._model.tokenize(texts)))
        return _unit(_unit(pooled) - self._centre)

    def _pooled(self, encoding: Encoding) -> Vectors:
        [tokens] = self._model.run(encoding)
        pooled: Vectors = tokens[0] if self._first else tokens.mean(axis=0)
        return pooled

    def count_tokens(self, text: str) -> int:
        return self._model.count_tokens(text)


def _unit(vectors: Vectors) -> Vectors:
    shortened: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return shortened


class SentenceTransformerEncoder:
    """Any sentence-transformers model, from a folder or from the hub, on torch."""

    def __init__(self, path_or_id: str) -> None:
        local_only = demand_loadable("encoder", path_or_id)
        from sentence_transformers import SentenceTransformer

        try:
            self._model = SentenceTransformer(path_or_id, local_files_only=bool(local_only))
        except (OSError, ValueError) as error:
            raise not_loaded("encoder", path_or_id, local_only, error) from error
        folder = Path(path_or_id)
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self.max_tokens = int(self._model.max_seq_length or DEFAULT_WINDOW)
        self.prompt, self._passage = _prompts(self._model.prompts)
        self.name = f"{folder.resolve().name if folder.is_dir() else path_or_id}:{self._fingerprint()}"
        self._lock = threading.Lock()
        self._named = path_or_id

    def __reduce__(self) -> tuple[Callable[[str], Encoder], tuple[str]]:
        return load_encoder, (self._named,)

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        # Its tokenizer keeps padding and truncation as state, which two threads would tear.
        with self._lock:
            vectors = self._model.encode(
                _prompted(texts, self.prompt, self._passage),
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.asarray(vectors, dtype=np.float32)

    def count_tokens(self, text: str) -> int:
        with self._lock:
            tokens = self._model.tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
        return len(tokens["input_ids"])

    def _fingerprint(self) -> str:
        """Of the weights as they were loaded, the window and the pooling: another revision of a hub's model and one
        retrained in place have other vectors. Names of weights are left out, which libraries change."""
        import torch

        tensors = (tensor.detach().cpu().contiguous().reshape(-1) for tensor in self._model.state_dict().values())
        weights = sorted(hashlib.sha256(tensor.view(torch.uint8).numpy()).hexdigest() for tensor in tensors)
        modules: Iterable[Any] = self._model
        pooling = [module.pooling_mode for module in modules if hasattr(module, "pooling_mode")]
        about = (weights, pooling, self.max_tokens, *([self._passage] if self._passage else []))
        return hashlib.sha256(repr(about).encode()).hexdigest()[:8]


def _prompts(prompts: Mapping[str, str | None]) -> tuple[str, str]:
    """The prompts of queries and of passages, empty where the model has none."""
    return prompts.get(QUERY) or "", next((prompt for name in PASSAGES if (prompt := prompts.get(name))), "")


def _prompted(texts: Sequence[str], query: str, passage: str) -> list[str]:
    return [text if query and text.startswith(query) else passage + text for text in texts]


class CachedVectors:
    """A `TextEncoder` that remembers the vectors of the last `size` texts; `prompt` is put before each of them."""

    def __init__(self, encoder: Encoder, prompt: str = "", size: int = CACHED_VECTORS) -> None:
        self._encoder = encoder
        self._prompt = prompt
        self._size = size
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Like `Encoder.encode`; the texts not yet known are encoded in one call."""
        with self._lock:
            cached = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in cached:
                self._vectors.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in cached]
        if missing:
            cached.update(zip(missing, self._encoder.encode([self._prompt + text for text in missing]), strict=True))
            with self._lock:
                self._vectors.update((text, cached[text]) for text in missing)
                while len(self._vectors) > self._size:
                    self._vectors.popitem(last=False)
        if not texts:
            return np.zeros((0, self._encoder.dimension), dtype=np.float32)
        return np.stack([cached[text] for text in texts])


def load_encoder(path_or_id: str, threads: int = 0) -> Encoder:
    """Load the embedding model in a folder, or of that hub id. Raises ModelUnavailable.

    `threads` is for models in ONNX files, as for `OnnxModel`.
    """
    folder = Path(path_or_id)
    if (folder / ONNX_FILE).is_file():
        return OnnxEncoder(folder, threads)
    return SentenceTransformerEncoder(path_or_id)


def demand_loadable(kind: str, path_or_id: str) -> str | None:
    """Why a model of sentence-transformers must be at hand, as half a sentence: its hub does not answer.

    Raises ModelUnavailable where that library is missing, and for a folder without a model, which the hub would be
    asked for as if it were an id. `kind` names what it is.
    """
    folder = Path(path_or_id)
    if folder.is_dir() and not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise ModelUnavailable(f"there is no model in {folder}: fetch it again, or correct the path")
    what = f"None of those that `anaphora models` lists, the {kind} {path_or_id!r}"
    need_extra("hub", what, "sentence_transformers", error=ModelUnavailable)
    return None if folder.is_dir() else unreachable()


def not_loaded(kind: str, path_or_id: str, local_only: str | None, error: Exception) -> ModelUnavailable:
    """Build the error for a model that sentence-transformers did not find."""
    why = f"it is not on this machine; the hub: {local_only}" if local_only else str(error).rstrip(".")
    return ModelUnavailable(
        f"cannot load the {kind} {path_or_id!r}: {why}. "
        "Name one that `anaphora models` lists, a folder, or a hub id on a machine that reaches the hub"
    )


def _said(config: Path, key: str, default: Any) -> Any:
    """Read a key from a file of the model's folder; `default` where there is none, or it is silent."""
    if not config.is_file():
        return default
    try:
        return json.loads(config.read_text("utf-8")).get(key) or default
    except (OSError, ValueError, AttributeError) as error:
        raise ModelUnavailable(f"{config} cannot be read ({error}): fetch the model again") from error
