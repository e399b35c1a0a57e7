"""Documents small enough to know by heart, and an encoder that needs no model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from index.collection import Collection
from index.documents import Document, Section


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
