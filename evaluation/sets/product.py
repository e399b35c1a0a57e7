"""Dialogs over the documentation of products, their evidence quoted from its pages; one set a product."""

from __future__ import annotations

from pathlib import Path

from evaluation.errors import MissingSet
from evaluation.sets import dialogs
from evaluation.sets.base import EvalSet
from evaluation.sets.rows import present

WHERE = "`docs/lab/evaluation.md` describes the files: you can write such dialogs over pages of your own."


def pages(data: Path, product: str, split: str = "dev") -> EvalSet:
    """The pages of a product as they are, and the questions of one part of the dialogs about it."""
    rows = present(data / "product_dialogs" / f"dialogs.{split}.jsonl", "Dialogs over product documentation", WHERE)
    corpus = present(data / "product_docs" / product, f"The documentation of {product}", WHERE)
    found = list(dialogs.questions(rows, {"product": product}))
    if not found:
        raise MissingSet(f"{rows} holds no dialog about {product!r}.")
    return dialogs.quoted(f"product-{product}", corpus, found, "product")
