"""Answers without a language model: the best sentences of the evidence, quoted and cited.

Says that it quotes, and says nothing at all where no sentence matches the question well enough; the
measurements behind the threshold are in `docs/citations.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from server.turn.events import Evidence
from server.turn.support import Support, SupportScorer

INTRODUCTION = "No language model is at work, so these are sentences from the documents, as they stand:"
MATCHES = 0.45
"""Where no sentence scores this much, nothing is quoted; chosen in `docs/citations.md`."""
CLOSE = 0.75
"""A further sentence is quoted if it scores at least this share of the best one."""
QUOTES = 3
PER_PASSAGE = 2
LONGEST = 600
"""Characters of one quotation; a longer sentence or code block is not quoted."""
_RANK_DISCOUNT = 0.03
_RULE = regex.compile(r"^[ \t]*[|+]?[ \t:]*[-=]{2,}[-=|+: \t]*$", regex.MULTILINE)
"""A line that separates a table's header from its body, or underlines a heading."""
_GOES_ON = regex.compile(r"[:：?？][*_\s]*$")
_ASKS = regex.compile(r"[?？][*_\s]*$")
_LINK = regex.compile(r"^(?:[-*+]|\d+[.)])?\s*!?\[[^\]]*\]\([^)]*\)[.,;]?\s*$")


def best_sentences(question: str, evidence: Sequence[Evidence], scorer: SupportScorer | None = None) -> list[Support]:
    """Up to three sentences that speak to `question`, best first; empty where none matches well.

    `scorer` is one of the same evidence; without it only words are compared.

    A sentence that ends with a colon brings what follows it, and so does a question, which says nothing alone.
    Passages found earlier count a little more.
    """
    found = _ranked(question, evidence, scorer or SupportScorer(evidence))
    if not found or found[0][0] < MATCHES:
        return []
    chosen: list[Support] = []
    for score, quote in found:
        taken = sum(one.n == quote.n for one in chosen)
        repeated = any(one.quote == quote.quote or _overlap(one, quote) for one in chosen)
        if score >= CLOSE * found[0][0] and taken < PER_PASSAGE and not repeated:
            chosen.append(quote)
        if len(chosen) == QUOTES:
            break
    return chosen


def best_match(question: str, evidence: Sequence[Evidence], scorer: SupportScorer) -> float:
    """How well the best sentence matches: what is compared with `MATCHES`."""
    return max((score for score, _ in _ranked(question, evidence, scorer)), default=0.0)


def _ranked(question: str, evidence: Sequence[Evidence], scorer: SupportScorer) -> list[tuple[float, Support]]:
    found: list[tuple[float, Support]] = []
    for passage in evidence:
        matches = scorer.matches(question, passage.n)
        for i, match in enumerate(matches):
            quote = _with_sequel(match, matches[i + 1] if i + 1 < len(matches) else None, passage)
            if len(quote.quote) <= LONGEST and not _is_frame(match.quote) and not _ASKS.search(quote.quote):
                found.append((match.score * (1 - _RANK_DISCOUNT * (passage.n - 1)), quote))
    return sorted(found, key=lambda one: (-one[0], one[1].n, one[1].start))


def _with_sequel(match: Support, sequel: Support | None, passage: Evidence) -> Support:
    if sequel is None or _RULE.search(sequel.quote) or not _GOES_ON.search(match.quote):
        return match
    text = passage.text[match.start - passage.start : sequel.end - passage.start]
    return Support(match.n, match.score, text, match.start, sequel.end) if len(text) <= LONGEST else match


def _is_frame(quote: str) -> bool:
    """Whether a quote is a heading, code, a link, a row of a table or its header, which say nothing alone."""
    bare = quote.strip()
    return bare.startswith(("#", "```", "|")) or bool(_RULE.search(bare) or _LINK.match(bare))


def _overlap(one: Support, other: Support) -> bool:
    return one.n == other.n and one.start < other.end and other.start < one.end
