"""From quotes to judgements: which passages of a collection hold what a dialog quotes.

A passage is relevant where it holds at least half of a quote, or lies at least half within it, wherever in the
document the quote stands. A quote is looked for character by character, and then by its words alone: a loader may have
turned the page into Markdown.
"""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import regex

from evaluation.sets.base import EvalSet, JudgedLevel, Quote
from index.collection import Collection
from index.query import Passage

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def spans(text: str, quote: str) -> list[tuple[int, int]]:
    """Return every span of `text` that matches `quote`; empty for a quote without words."""
    exact = [(at.start(), at.end()) for at in regex.finditer(regex.escape(quote, special_only=True), text)]
    wanted = [word for word, _, _ in _words(quote)]
    if exact or not wanted:
        return exact if wanted else []
    words = _words(text)
    return [
        (words[n][1], words[n + len(wanted) - 1][2])
        for n, (word, _, _) in enumerate(words)
        if word == wanted[0] and [word for word, _, _ in words[n : n + len(wanted)]] == wanted
    ]


@lru_cache(maxsize=64)
def _words(text: str) -> list[tuple[str, int, int]]:
    return [(at[0].casefold(), at.start(), at.end()) for at in _WORD.finditer(text)]


def relevant(passages: Sequence[Passage], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Ids of the passages of a document that hold one of the stretches found in it, or lie within one."""
    return [
        passage.id
        for passage in passages
        if any(
            2 * (min(end, passage.end) - max(start, passage.start)) >= min(end - start, passage.end - passage.start)
            for start, end in spans
        )
    ]


def document_id(document: str, names: Names[str]) -> str:
    """The id a document has; its first folder may be that of the whole collection. Empty where it has none."""
    return next((name for name in (document, document.partition("/")[2]) if name in names), "")


def placed(chosen: EvalSet, collection: Collection) -> EvalSet:
    """The set judged by passage and by document of the collection, where it has quotes; else the set itself.

    Quotes of documents that the collection lacks, or that no passage holds, judge nothing.
    """
    if not chosen.quotes:
        return chosen
    names = {document.id for document in collection.documents()}
    passages: dict[str, dict[str, int]] = {}
    documents: dict[str, dict[str, int]] = {}
    for question, quotes in chosen.quotes.items():
        for name, quote in _named(quotes, names):
            if ids := relevant(collection.passages(name), spans(collection.document(name).text, quote)):
                passages.setdefault(question, {}).update(dict.fromkeys(ids, 1))
                documents.setdefault(question, {})[name] = 1
    levels = (JudgedLevel("passage", passages), JudgedLevel("document", documents, "document"))
    return replace(chosen, levels=(*chosen.levels, *levels), quotes={})


def _named(quotes: Sequence[Quote], names: Names[str]) -> list[tuple[str, str]]:
    return [(name, quote.text) for quote in quotes if (name := document_id(quote.document, names))]
