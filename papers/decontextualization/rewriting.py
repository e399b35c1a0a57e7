"""A model's free rewrite of a quote as spans of it, and the checks that refuse one.

The rewrite is aligned with the quote word for word; any difference outside brackets refuses it. A pronoun or a short
phrase that points may be replaced by a bracket.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import regex

from papers.rewrite_checks import (
    ADDRESS,
    CITATION,
    FLOAT_REFERENCE,
    MARKER,
    MARKUP,
    PLACEHOLDER,
    EvidenceTexts,
    addition_refused,
)
from papers.spans import Edit, QuoteSpan, apply, kept, original
from plugins.evidence.decontextualize import untouchable
from text.sentences import sentence_spans
from text.words import negations, numbers, words

_POINTS = regex.compile(
    r"(?:we|our|ours|us|i|my|me|it|its|he|his|she|her|they|their|them|this|that|these|those|such|here)"
    r"(?:\s+[\p{L}\p{N}\-]+){0,3}",
    regex.IGNORECASE,
)
_TOKEN = regex.compile(r"[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]")
_QUOTES = str.maketrans("“”„‟‘’‚‛«»", '""""' + "''''" + '""')


def spans_refused(quote: str, spans: Sequence[QuoteSpan], evidence: EvidenceTexts) -> str:
    """Return the reason to refuse these spans in place of `quote`; empty if they are allowed."""
    if original(spans) != quote:
        return "The words of the quote were changed outside brackets."
    at = 0
    places = untouchable(quote)
    for i, span in enumerate(spans):
        end = at + (0 if span.kind == "added" else len(span.text))
        inside = any(start < at < stop or start < end < stop for start, stop in places)
        if span.kind == "removed":
            replaced = spans[i + 1].text if i + 1 < len(spans) and spans[i + 1].kind == "added" else ""
            if any(start < end and at < stop for start, stop in places) and not FLOAT_REFERENCE.fullmatch(span.text):
                return "Code, a link or a citation was removed."
            if reason := _removal_refused(span.text, bool(replaced)):
                return reason
        elif span.kind == "added":
            if inside:
                return "An addition stands within code, a link or a citation."
            if reason := addition_refused(span.text, quote, evidence):
                return reason
        at = end
    if len(sentence_spans(kept(spans))) != len(sentence_spans(quote)) and kept(spans).strip():
        return "The number of sentences outside the brackets changed."
    return "" if kept(spans).strip() else "Nothing is left of the quote."


def _removal_refused(removed: str, replaced: bool) -> str:
    plain = removed.strip()
    if MARKER.fullmatch(plain) or FLOAT_REFERENCE.fullmatch(removed) or FLOAT_REFERENCE.fullmatch(plain):
        return ""
    if numbers(plain):
        return f"A number was removed (“{plain[:60]}”)."
    if negations(plain):
        return f"A negation was removed (“{plain[:60]}”)."
    if replaced and _POINTS.fullmatch(plain):
        return ""
    return f"Words were removed that are no discourse marker, figure or table (“{plain[:60]}”)."


def read_rewrite(quote: str, rewrite: str) -> tuple[list[QuoteSpan], str]:
    """A free rewrite as spans of the quote, and why it is refused (then without spans).

    Words outside brackets must be the quote's, in their order; case, blanks and punctuation are taken from the quote.
    """
    outside, added = _without_brackets(quote, rewrite)
    if any(not words(text) for _, text in added):
        return [], "An addition is empty."
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(quote)]
    written = [(match.group(), match.start()) for match in _TOKEN.finditer(outside)]
    matcher = SequenceMatcher(
        a=[_plain(token) for token, *_ in tokens], b=[_plain(token) for token, _ in written], autojunk=False
    )
    edits: list[Edit] = []
    places: dict[int, int] = {}
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            places.update((c + i, a + i) for i in range(b - a))
            continue
        new = [token for token, _ in written[c:d] if token[0].isalnum() or token[0] == "_"]
        if new:
            begin = written[c][1]
            finish = written[d - 1][1] + len(written[d - 1][0])
            return [], _difference(outside[begin:finish], quote, outside)
        gone = [token for token, *_ in tokens[a:b] if token[0].isalnum() or token[0] == "_"]
        if gone:
            end = tokens[b][1] if b < len(tokens) else len(quote)
            edits.append(Edit(tokens[a][1], end))
        places.update((i, max(a - 1, 0)) for i in range(c, d))
    for at, text in added:
        before = [i for i, (_, start) in enumerate(written) if start < at]
        place = tokens[places[before[-1]]][2] if before and before[-1] in places else 0
        edits.append(Edit(place, place, text))
    return apply(quote, _merged(quote, edits)), ""


def _merged(quote: str, edits: list[Edit]) -> list[Edit]:
    """An addition beside a removal becomes its replacement; one that a removal swallows stands behind it."""
    removals = sorted((edit for edit in edits if edit.end > edit.start), key=lambda edit: edit.start)
    merged, rest = list[Edit](), [edit for edit in edits if edit.end == edit.start]
    for removal in removals:
        near = [e for e in rest if removal.start - 1 <= e.start <= removal.end]
        rest = [e for e in rest if e not in near]
        stop = removal.end
        if near:
            stop = removal.start + len(quote[removal.start : removal.end].rstrip())
        merged.append(Edit(removal.start, stop, "; ".join(e.added for e in near)))
    return merged + rest


def _without_brackets(quote: str, rewrite: str) -> tuple[str, list[tuple[int, str]]]:
    """The rewrite without its additions, and each addition with its place there. The quote's own brackets stay."""
    own = [match.group() for match in regex.finditer(r"\[[^\[\]]*\]", quote)]
    outside, added, at = "", list[tuple[int, str]](), 0
    for match in regex.finditer(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]", rewrite):
        outside += rewrite[at : match.start()]
        at = match.end()
        if match.group() in own:
            own.remove(match.group())
            outside += match.group()
        else:
            added.append((len(outside), " ".join(match.group()[1:-1].split())))
    return outside + rewrite[at:], added


def _plain(token: str) -> str:
    return token.casefold().translate(_QUOTES)


def _difference(new: str, quote: str, outside: str) -> str:
    """Return the kind of the words outside brackets that the quote does not have."""
    excerpt = f"(“{' '.join(new.split())[:60]}”)."
    if MARKUP.search(outside) and not MARKUP.search(quote):
        return f"The rewrite contains markup or a script {excerpt}"
    if ADDRESS.search(outside) and not ADDRESS.search(quote):
        return f"The rewrite contains an address {excerpt}"
    if PLACEHOLDER.search(new):
        return f"The rewrite contains a placeholder {excerpt}"
    if any(match.group() not in quote for match in CITATION.finditer(outside)):
        return f"The rewrite adds a citation outside brackets {excerpt}"
    if len(sentence_spans(outside)) > len(sentence_spans(quote)):
        return f"The rewrite adds a sentence outside brackets {excerpt}"
    if numbers(new) - numbers(quote):
        return f"The rewrite adds a number outside brackets {excerpt}"
    if negations(new):
        return f"The rewrite adds a negation outside brackets {excerpt}"
    return f"The rewrite adds words outside brackets {excerpt}"
