"""Whether a passage says something else than a statement of an answer: a number, a name, a negation is turned."""

from __future__ import annotations

from collections.abc import Sequence

import regex

_LINK = regex.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)(?:\{[^{}\n]*\})?")
_REFERENCE = regex.compile(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]|\{[:#.][^{}\n]*\}")
_TAG = regex.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]{0,200}>", regex.DOTALL)
_FRAME = regex.compile(
    r"^\s*(?:[-*+>•|]\s+|#{1,6}\s+|\d{1,3}[.)]\s+|(?:!!!|\?\?\?\+?|:::|///)[^\n]*|(?:```|~~~)\w*)+", regex.MULTILINE
)
_STRESS = regex.compile(r"(?<!\w)(?:\*\*|__|[*_])(?=\S)|(?<=\S)(?:\*\*|__|[*_])(?!\w)")
_ENDS = (".", "!", "?", ":", ";", "。", "！", "？")

WINDOW = 192
"""Tokens of a pair at most; of a longer one the evidence's end is not read."""
SENTENCE_CHARACTERS = 400
"""So much of the sentence that speaks of the same things is read."""
BESIDE_CHARACTERS = 160
"""So much of each sentence beside it."""


def plain(text: str) -> str:
    """Markdown as words on one line: no links, tags, bullets or stress; code keeps its back quotes."""
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _REFERENCE.sub(lambda match: match[1] or "", text)
    return " ".join(_STRESS.sub("", _FRAME.sub("", text)).split())


def evidence_text(heading: str, sentences: Sequence[str], own: int) -> str:
    """What the model reads of a passage: the nearest heading, the sentence at place `own`, and one on either side."""
    before = plain(sentences[own - 1])[-BESIDE_CHARACTERS:] if own else ""
    after = plain(sentences[own + 1])[:BESIDE_CHARACTERS] if own + 1 < len(sentences) else ""
    parts = (plain(heading), before, plain(sentences[own])[:SENTENCE_CHARACTERS], after)
    return " ".join(part if part.endswith(_ENDS) else f"{part}." for part in parts if part)


def statement_text(statement: str, question: str = "") -> str:
    """What the model reads of an answer: the statement, behind the question that it answers, where there is one."""
    asked = plain(question)[-BESIDE_CHARACTERS:].rstrip(" ?.!")
    return f"{asked}? {plain(statement)}" if asked else plain(statement)
