"""Find the sentence that says what something is, where a question asks for that.

"What is a chart?" is answered by "A chart is a Helm package." and not by the sentences that use charts, however many
of the question's words they hold. The forms are read in the page languages; no model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from server.turn.events import Evidence
from server.turn.support import Support
from text.blocks import without_links
from text.words import stems

_ARTICLES = r"(?:an?|the|ein(?:e|en|em|er)?|der|die|das|une?|les?|la|l['’]|el|los|las|una?)"
_ASKED = (
    regex.compile(
        r"(?:^|[,.;!?:]\s*|\b(?:and|but|so|ok|okay|then|und|et|y)\s+)"
        r"(?:what(?:\s+exactly)?(?:['’]?s|\s+is|\s+are|\s+was|\s+were)|whats|define|explain|meaning\s+of"
        r"|what\s+do\s+you\s+mean\s+(?:by|with)|was\s+(?:ist|sind)|qu['’]est-ce\s+qu(?:e|['’])|qu[eé]\s+(?:es|son))\s+"
        rf"(?:(?:exactly|actually|even|again|this|meant\s+by|eigentlich)\s+)*(?:{_ARTICLES}\s+)?"
        r"(?P<term>[^?!,;:\n]{2,60}?)"
        r"(?:\s+(?:exactly|actually|anyway|again|then|good\s+for|for|all\s+about|about|eigentlich))*\s*(?:[?!,;:]|\.(?!\w)|$)",
        regex.IGNORECASE,
    ),
    regex.compile(
        rf"\bwhat\s+do(?:es)?\s+(?:{_ARTICLES}\s+)?(?P<term>[^?!,;:\n]{{2,60}}?)\s+(?:mean|stand\s+for|do)\b",
        regex.IGNORECASE,
    ),
    regex.compile(r"(?:什么是|何谓)\s*(?P<term>[^?？。，]{1,30})|(?P<term>[^?？。，\s]{1,30}?)(?:是什么|指什么)"),
    regex.compile(r"ما\s+(?:هو|هي|هم|معنى)\s+(?P<term>[^?؟،]{2,60})"),
)
_SAYS = regex.compile(
    r"^(?:[^\p{L}\p{N}-]|-(?!-))*(?:(?:in|within|for|with)\s[^,\n]{1,40},\s*)?"
    rf"(?:{_ARTICLES}\s+|[^\p{{L}}\p{{N}}-])*(?P<head>[^,\n]{{1,80}}?)(?:\s*\([^()\n]{{1,60}}\))?(?:,[^,\n]{{1,80}},)?"
    r"(?:[*_`\"”]*\s+(?:is|are|refers?\s+to|means?|describes?|stands?\s+for|denotes?|represents?|consists?\s+of|ist|sind"
    r"|bezeichne[nt]+|bedeutet|est|sont|désigne|signifie|es|son|significa|هو|هي)\s+(?!(?:not|only|now|also|still|no|easy|nicht"
    r"|pas)\b|(?!used|based)\w+(?:ed|able)\b)|[*_`\"”]*\s*[:：][*_`]*\s|[*_`\"”]*\s+[–—-]\s|\s*(?:是|指))",
    regex.IGNORECASE,
)
_HANGS = regex.compile(
    r"(?:what|who|there|when|if|while|as|because|once|after|before|in|on|at|by|for|from|with|to|how|why|where|which|whether|since|wenn|falls"
    r"|si|quand|cuando)\b",
    regex.IGNORECASE,
)
_ROW = regex.compile(r"\s*\|(?P<term>[^|\n]+)\|(?P<meaning>[^|\n]+)\|\s*$")
"""A row of two cells, as glossaries have them."""
_MARGIN = 6.0
"""By how much a cross-encoder may like a definition less than the best sentence (logits)."""
_MEANING_WORDS = 3
"""Words of a table's second cell that says what the first one means."""
_SHARE = 0.5
"""Which share of the best sentence's score it must have where only words are compared."""


def asked_term(question: str) -> str:
    """Return what a question asks the meaning of; empty where it asks for something else."""
    for pattern in _ASKED:
        if match := pattern.search(question):
            return str(match["term"]).strip(" `*_\"'.”“")
    return ""


def definition(
    asked: Sequence[str], scored: Sequence[tuple[float, Support]], evidence: Sequence[Evidence], *, read: bool
) -> Support | None:
    """Return the best of the `scored` sentences that says what a question asks the meaning of; None where none does.

    `asked` is the question as typed, and then with what it leans on. Such a sentence is one whose subject is the term,
    or the first of a section that is named so.
    """
    term = next((term for question in asked if (term := set(stems(asked_term(question))))), set[str]())
    if not term or not scored:
        return None
    best = scored[0][0]
    least = best - _MARGIN if read else _SHARE * best
    places = {passage.n: passage for passage in evidence}
    begins = {n: min(quote.start for _, quote in scored if quote.n == n) for n in {quote.n for _, quote in scored}}
    near = [quote for score, quote in scored if score >= least]
    said = next((quote for quote in near if _defines(term, quote.quote)), None)
    return said or next((q for q in near if q.start == begins[q.n] and _names(term, places[q.n])), None)


def _defines(term: set[str], sentence: str) -> bool:
    plain = without_links(sentence)
    if row := _ROW.match(plain):
        return set(stems(row["term"])) == term and len(row["meaning"].split()) >= _MEANING_WORDS
    match = _SAYS.match(plain)
    if match is None or _HANGS.match(match["head"]):
        return False
    head = stems(match["head"])
    # "A Helm chart is …" says what a chart is, "a chart repository is …" does not.
    return term <= set(head) and len(set(head)) <= len(term) + 1 and head[-1] in term


def _names(term: set[str], passage: Evidence) -> bool:
    """Whether the innermost heading, or the title above no heading, is the term."""
    return set(stems(passage.heading[-1] if passage.heading else passage.title)) == term
