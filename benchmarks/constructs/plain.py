"""Constructs of plain text, and of `corpus.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import WORDS, Make, repeated


def _corpus(size: int, one_document: bool) -> bytes:
    rows, n, total = [], 0, 0
    while total < size:
        metadata = {"doc_id": "one"} if one_document else {}
        rows.append(json.dumps({"_id": str(n), "title": f"Title {n}", "text": WORDS, "metadata": {**metadata, "n": n}}))
        total += len(rows[-1])
        n += 1
    return "\n".join(rows).encode()


def _corpus_nested(size: int) -> bytes:
    return b'{"_id": "1", "text": "Words."}\n{"_id": "2", "text": "a", "metadata": ' + b"[" * size + b"}"


TEXT: Mapping[str, Make] = {
    "paragraphs": repeated("Some words make a sentence. Others make another.\n\n"),
    "one line": repeated("words without end "),
    "one word": repeated("x"),
    "one word of digits": repeated("1"),
    "one word of dashes": repeated("-"),
    "one word of quotes": repeated('"'),
    "one word of brackets": repeated(")"),
    "one word of dots": repeated("a.b"),
    "one word of signs": repeated("!?"),
    "abbreviations": repeated("e.g. Dr. No. "),
    "initials": repeated("A.B. "),
    "lines": repeated("a line\n"),
    "pages": repeated("a page\f"),
    "blank pages": repeated("\f"),
    "no spaces": repeated("話"),
    "no spaces, sentences": repeated("話。"),
    "thai": repeated("ภาษาไทย"),
    "latin": lambda size: ("Café très bon. " * (size // 15)).encode("latin-1"),
    "wide characters": lambda size: ("Some words. " * (size // 24)).encode("utf-16"),
    "other signs": repeated("\u0300"),
    "combined signs": repeated("a\u0300\u0301"),
    "joiners": repeated("\u200d"),
    "admonition line": repeated("x", before="!!! a\nb ", after="\nc"),
    "admonition lines": lambda size: b"!!! " + b"x" * size + b"\nwords\n",
    "slash lines": lambda size: b"/// " + b"ab " * (size // 3) + b"\nwords\n",
    "colons": repeated(":"),
    "colon lines": repeated("a:\n"),
    "colons in one line": repeated("a: "),
    "closing tag": repeated("x", before="</", after=""),
    "signs before a word": repeated("!", before="", after="a"),
    "parentheses": repeated("("),
    "quotes, open": repeated(' "a. b'),
    "quotes, closed": repeated(' "a. b"'),
}


CORPUS: Mapping[str, Make] = {
    "rows": partial(_corpus, one_document=False),
    "rows of one document": partial(_corpus, one_document=True),
    "nested": _corpus_nested,
    "malformed rows": repeated("{\n", before='{"_id": "1", "text": "Words."}\n'),
    "same rows": repeated('{"_id": "1", "text": "Words."}\n', before=""),
    "long text": repeated("word ", before='{"_id": "1", "text": "', after='"}'),
    "many keys": repeated(', "k%d": 1', before='{"_id": "1", "text": "Words.", "metadata": {"a": 1', after="}}"),
    "long number": repeated("1", before='{"_id": "1", "text": "Words.", "metadata": {"a": ', after="}}"),
}
