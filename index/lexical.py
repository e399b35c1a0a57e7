"""BM25 over the passages of one version of a collection, behind one small protocol.

`bm25s` scores a query in a fraction of a millisecond and is memory-mapped from disk; `rank-bm25` is
slow and plain, and gives the same ranking. Rows number passages from 0; ids and texts are the
collection's affair, words are `index.tokenizer`'s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from index.errors import CollectionCorrupt
from index.tokenizer import tokenize

LexicalEngine: TypeAlias = Literal["bm25s", "rank-bm25"]
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

K1 = 1.5
B = 0.75


class LexicalIndex(Protocol):
    """A built BM25 index; safe to search from several threads at once."""

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        """Rows of at most `k` passages that share a word with the text, best first, ties by row.

        `mask` is `(rows,)` and False where a passage must not be found.
        """

    def save(self, folder: Path) -> None:
        """Write the index into a new folder."""


class Bm25s:
    """The bm25s engine: scores are computed when the index is built, and summed at search."""

    def __init__(self, engine: Any, rows: int) -> None:
        self._engine = engine
        self._rows = rows

    @classmethod
    def build(cls, texts: Sequence[str]) -> Bm25s:
        import bm25s

        engine = bm25s.BM25(k1=K1, b=B, method="lucene")
        engine.index(_token_ids(texts), create_empty_token=False, show_progress=False)
        return cls(engine, len(texts))

    @classmethod
    def load(cls, folder: Path) -> Bm25s:
        import bm25s

        try:
            engine = bm25s.BM25.load(str(folder), mmap=True, show_progress=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CollectionCorrupt(f"the BM25 index in {folder} cannot be read ({error}): index again") from error
        return cls(engine, int(engine.scores["num_docs"]))

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        words = self._engine.get_tokens_ids(tokenize(text))
        if not words or k < 1:
            return []
        return _best(self._engine.get_scores_from_ids(words, weight_mask=mask), k)

    def save(self, folder: Path) -> None:
        self._engine.save(str(folder), show_progress=False)


class RankBm25:
    """The rank-bm25 engine: every search scores every passage, in Python."""

    FILE = "tokens.jsonl"

    def __init__(self, corpus: list[list[str]]) -> None:
        self._corpus = corpus
        self._engine = _lucene_bm25(corpus)

    @classmethod
    def build(cls, texts: Sequence[str]) -> RankBm25:
        return cls([tokenize(text) for text in texts])

    @classmethod
    def load(cls, folder: Path) -> RankBm25:
        try:
            with (folder / cls.FILE).open(encoding="utf-8") as lines:
                return cls([json.loads(line) for line in lines])
        except (OSError, ValueError) as error:
            raise CollectionCorrupt(f"the BM25 index in {folder} cannot be read ({error}): index again") from error

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        words = tokenize(text)
        if not words or k < 1:
            return []
        scores = np.asarray(self._engine.get_scores(words))
        return _best(scores if mask is None else scores * mask, k)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        with (folder / self.FILE).open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(words, ensure_ascii=False) + "\n" for words in self._corpus)


class NoWords:
    """Stands in for an index over passages without a single word, which neither engine can hold."""

    def search(self, text: str, k: int, mask: Mask | None = None) -> list[int]:
        return []

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)


def build_lexical(engine: LexicalEngine, texts: Sequence[str]) -> LexicalIndex:
    """Index the texts, row by row."""
    if not any(tokenize(text) for text in texts):
        return NoWords()
    return Bm25s.build(texts) if engine == "bm25s" else RankBm25.build(texts)


def load_lexical(engine: LexicalEngine, folder: Path) -> LexicalIndex:
    """Open what `save` wrote; raises CollectionCorrupt."""
    if not folder.is_dir():
        raise CollectionCorrupt(f"the BM25 index {folder} is missing: index again")
    if not any(folder.iterdir()):
        return NoWords()
    return Bm25s.load(folder) if engine == "bm25s" else RankBm25.load(folder)


def _token_ids(texts: Sequence[str]) -> tuple[list[list[int]], dict[str, int]]:
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in tokenize(text)] for text in texts]
    return ids, vocabulary


def _best(scores: npt.NDArray[Any], k: int) -> list[int]:
    """Rows of the `k` highest scores above 0, ties by row (an unknown word scores 0 everywhere)."""
    rows = np.flatnonzero(scores > 0)
    found = scores[rows]
    if len(rows) > k:
        threshold = np.partition(found, len(found) - k)[len(found) - k]
        keep = found >= threshold
        rows, found = rows[keep], found[keep]
    order = np.argsort(-found, kind="stable")[:k]
    best: list[int] = rows[order].tolist()
    return best


def _lucene_bm25(corpus: list[list[str]]) -> Any:
    from rank_bm25 import BM25Okapi

    class LuceneBm25(BM25Okapi):  # type: ignore[misc]
        """With Lucene's IDF: Okapi's own is zero or negative for a word that half of the passages hold."""

        def _calc_idf(self, containing: dict[str, int]) -> None:
            self.idf = {
                word: math.log(1 + (self.corpus_size - count + 0.5) / (count + 0.5))
                for word, count in containing.items()
            }

    return LuceneBm25(corpus, k1=K1, b=B)
