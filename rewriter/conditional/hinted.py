"""A model that writes with the words which the packaged term rewriter found: that one decides, this one phrases.

What is learned is what will be asked: the rows to which the term rewriter adds words, and of these the ones that the
guard would let pass. People's rewrites change more than it allows, and a model that writes as they do is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewriter import guard
from rewriter.errors import RunError
from rewriter.examples import RewriteExample
from rewriter.load import Serving, load_rewriter, packaged_folder
from rewriter.protocol import Rewrite, Rewriter


def open_words(serving: Serving = Serving()) -> Rewriter:  # noqa: B008  (frozen)
    """The packaged term rewriter. Raises RunError where an installation has none."""
    folder = packaged_folder()
    if folder is None:
        raise RunError("This installation has no packaged rewriter whose words could be read: install it again.")
    return load_rewriter(folder, serving)


def hint(found: Rewrite | None) -> str:
    """The words a model reads after the question."""
    return " ".join(term.text for term in found.expansion) if found else ""


def learnable(examples: Sequence[RewriteExample], words: Rewriter) -> Iterator[tuple[RewriteExample, str]]:
    """The examples that such a model learns from, each with its hint."""
    for example in examples:
        if example.history and not guard.check(example.conversation, example.question, example.rewrite):
            found = words.rewrite(example.conversation, example.question)
            if found.decision == "expand":
                yield example, hint(found)
