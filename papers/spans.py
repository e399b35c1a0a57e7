"""A quote that was edited, as spans: kept, added in brackets, or removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

SpanKind = Literal["kept", "added", "removed"]

_CLOSES = regex.compile(r"[.,;:!?)]")
_OPENS = regex.compile(r"[\p{L}\p{M}\p{N}_(\[]")


@dataclass(frozen=True, slots=True)
class QuoteSpan:
    """A stretch of a changed quote; an added one is without its brackets."""

    kind: SpanKind
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """`text[start:end]` is taken out (nothing where both are equal), and `added` put behind it."""

    start: int
    end: int
    added: str = ""


def apply(text: str, edits: Iterable[Edit]) -> list[QuoteSpan]:
    """The spans that edits make of a text. Edits do not overlap; of additions in one place the first comes first."""
    spans: list[QuoteSpan] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"edits overlap at {edit.start}")
        spans += [QuoteSpan("kept", text[at : edit.start]), QuoteSpan("removed", text[edit.start : edit.end])]
        spans.append(QuoteSpan("added", edit.added))
        at = edit.end
    spans.append(QuoteSpan("kept", text[at:]))
    return joined(spans)


def joined(spans: Iterable[QuoteSpan]) -> list[QuoteSpan]:
    """The same without empty spans, and with neighbours of one kind in one; additions stay apart."""
    merged: list[QuoteSpan] = []
    for span in spans:
        if not span.text:
            continue
        if merged and merged[-1].kind == span.kind != "added":
            merged[-1] = QuoteSpan(span.kind, merged[-1].text + span.text)
        else:
            merged.append(span)
    return merged


def original(spans: Sequence[QuoteSpan]) -> str:
    """Return the quote as written in its document."""
    return "".join(span.text for span in spans if span.kind != "added")


def kept(spans: Sequence[QuoteSpan]) -> str:
    """Return the words of the quote outside the brackets."""
    return "".join(span.text for span in spans if span.kind == "kept")


def bracketed(spans: Sequence[QuoteSpan]) -> str:
    """The quote as it is shown and copied: additions in brackets, what was removed left out."""
    text, after_addition = "", False
    for span in spans:
        if span.kind == "added":
            text += f"{'' if not text or text[-1].isspace() else ' '}[{span.text}]"
            after_addition = True
        elif span.kind == "kept":
            # `[…](` would be a link, `[…][` a reference.
            if after_addition and _OPENS.match(span.text):
                text += " "
            if text[-1:].isspace():
                # What was removed had a blank on either side, or a full stop behind it.
                text = text.rstrip() if _CLOSES.match(span.text) else text
                span = QuoteSpan("kept", span.text.removeprefix(" "))
            text += span.text
            after_addition = False
    return text
