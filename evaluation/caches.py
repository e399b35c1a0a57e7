"""Embeddings and a cross-encoder's scores kept on disk by the text's hash, so that no evaluation computes one twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from index.encoders import Encoder, Vectors
from index.rerank import CrossEncoderReranker, Reranker, Scorer, Scores
from index.writer import VectorJournal

BATCH = 512


class _Remembered:
    """Numbers kept on disk under the hash of a text; for one thread at a time, and one process."""

    def __init__(self, path: Path, name: str, dimension: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._journal = VectorJournal(path, name, dimension)
        self._known = self._journal.keys()

    def _keep(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        self._journal.add(keys, vectors)
        self._known.update(keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._journal.close()


class CachedEncoder(_Remembered):
    """An encoder with a memory on disk."""

    def __init__(self, encoder: Encoder, path: Path) -> None:
        super().__init__(path, encoder.name, encoder.dimension)
        self.name, self.dimension, self.max_tokens = encoder.name, encoder.dimension, encoder.max_tokens
        self.count_tokens, self.prompt = encoder.count_tokens, encoder.prompt
        self._encoder = encoder
        self.encoded = 0
        """Texts that had to be encoded, and were not known."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.prepare(texts)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([self._journal.get(_key(text)) for text in texts])

    def prepare(self, texts: Iterable[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Encode those of `texts` that are not known yet, in large batches, kept as soon as they are done."""
        keyed = {key: text for text in texts if (key := _key(text)) not in self._known}
        # Texts of like length share a batch, so that little of it is padding.
        missing = sorted(keyed, key=lambda key: len(keyed[key]))
        for start in range(0, len(missing), BATCH):
            keys = missing[start : start + BATCH]
            self._keep(keys, self._encoder.encode([keyed[key] for key in keys]))
            self.encoded += len(keys)
            if progress is not None:
                progress(min(start + BATCH, len(missing)), len(missing))


class CachedScorer(_Remembered):
    """A cross-encoder's scorer with a memory on disk."""

    def __init__(self, scorer: Scorer, name: str, path: Path) -> None:
        super().__init__(path, name, 1)
        self.cut = scorer.cut
        self._scorer = scorer
        self.read = 0
        """Pairs that had to be read, and were not known."""

    def score(self, question: str, passages: Sequence[str]) -> Scores:
        keys = [_key(f"{question}\0{passage}") for passage in passages]
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in self._known}
        if missing:
            scores = self._scorer.score(question, list(missing.values()))
            self._keep(list(missing), scores.astype(np.float32).reshape(-1, 1))
            self.read += len(missing)
        return np.concatenate([self._journal.get(key) for key in keys])


@contextmanager
def cached_reranker(reranker: Reranker | None, path: Path) -> Iterator[Reranker | None]:
    """The same with a memory of what it has read, where it is one of ours."""
    if not isinstance(reranker, CrossEncoderReranker):
        yield reranker
        return
    with CachedScorer(reranker.scorer, reranker.name, path) as scorer:
        yield CrossEncoderReranker(reranker.name, scorer, lengths=reranker.lengths)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
