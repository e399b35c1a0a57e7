"""An encoder that needs no model, and collections built with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.documents import Document, Section
from index.encoders import Vectors
from text.tokenizer import tokenize


@lru_cache(maxsize=100_000)
def _direction(term: str, dimension: int) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)


@dataclass
class WordEncoder:
    """Each term points its own way, a text where its terms do: alike words, alike vectors. Counts what it encodes."""

    name: str = "words"
    dimension: int = 48
    max_tokens: int = 256
    encoded: list[str] = field(default_factory=list)
    calls: int = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self.encoded.extend(texts)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for term in tokenize(text):
                vectors[row] += _direction(term, self.dimension)
        vectors[~vectors.any(axis=1)] = 1.0
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opened: each open collection holds a dozen files."""
    opened: list[Collection] = []
    original = Collection.open

    def remembered(*args: Any, **options: Any) -> Collection:
        opened.append(original(*args, **options))
        return opened[-1]

    monkeypatch.setattr(Collection, "open", remembered)
    yield
    for collection in opened:
        collection.close()


@pytest.fixture
def words() -> WordEncoder:
    """A fresh counting encoder."""
    return WordEncoder()


def document(name: str, text: str, title: str = "", **metadata: str | int | float | bool) -> Document:
    """A document of one section."""
    return Document(name, title, text, (Section((), 0, len(text)),), metadata)


TEXTS = {
    "fax": "Send the form by fax to the claims office. The fax number is printed on the form.",
    "mail": "Send the form by mail. Mail takes two weeks to arrive at the claims office.",
    "refund": "The application fee is refundable within thirty days of payment.",
    "licence": "A driver licence must be renewed every eight years at the motor vehicle office.",
    "loan": "Student loans are repaid in monthly instalments that follow your income.",
}


@pytest.fixture
def documents() -> list[Document]:
    """Five short documents, of the domains `post` and `money`."""
    domains = {"fax": "post", "mail": "post", "refund": "money", "licence": "road", "loan": "money"}
    return [document(name, text, domain=domains[name]) for name, text in TEXTS.items()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same texts as a folder of Markdown files."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in TEXTS.items():
        (docs / f"{name}.md").write_text(f"# About {name}\n\n{text}\n", "utf-8")
    return docs
