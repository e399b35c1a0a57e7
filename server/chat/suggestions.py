"""Questions made of headings: what a section is asked for by its title alone.

Whether a question is answered is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from index.documents import Document
from server.chat.types import DocumentText, Suggestion
from server.turn.decision import chances, decide, language_of_hits
from server.turn.evidence import best_sentences, select_evidence
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer

_PER_DOCUMENT = 3


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Verbs that hardly begin a heading as nouns: "Query parameters" asks for nothing, "Turn off" does.
_IMPERATIVE = _words(
    """add allow ask build call change check choose clean collect combine compare compute configure connect convert
    create customise customize declare define delete deploy disable edit enable export extend fetch find fix generate
    get handle hide import improve include inspect install integrate keep load make manage measure merge migrate mount
    move open override parse pass prepare prevent publish raise read receive reduce register reload remove rename
    replace restart restore restrict reuse run save secure select send serve set share show sign sort split start stop
    store submit switch sync tell translate tune turn upload use validate verify wrap write"""
)
_STANDING = _words(
    """changelog license licence contributing contents index overview introduction summary notes note references
    reference appendix faq todo about readme history credits authors see also recap info tip warning example
    examples usage more next steps"""
)


_ASKING = _words("how what when where which who whom whose why can could do does is are may must should will")
_BEING = _words("is are was were can must should will")
_ARTICLES = _words("a an the")
_NUMBERED = re.compile(
    r"(?i)(?:section|chapter|part|step|lesson|day|week|page|figure|table|appendix)\W*[\dA-Z]{1,3}\b.*"
)
"""A heading that counts."""


def question_about(heading: str) -> str | None:
    """A question a section of this heading answers; None where the heading says too little."""
    heading = re.sub(r"[`*_#]|\{[^}]*\}|^\W*\d+(\.\d+)*\.?\s+", "", heading).strip().rstrip(".:")
    words = heading.lower().split()
    if not 4 <= len(heading) <= 60 or len(words) > 8 or all(word in _STANDING for word in words):
        return None
    if heading.endswith("?"):
        return heading if words[0] in _ASKING and len(words) > 2 else None
    if words[0] in _ASKING:
        return f"{heading}?" if len(words) > 2 and words[0] == "what" and words[1] in _BEING else None
    if _NUMBERED.fullmatch(heading):
        return None
    if words[0] in _IMPERATIVE and len(words) > 1:
        return f"How do I {heading[0].lower()}{heading[1:]}?"
    if len(words) == 1 and words[0].isascii() and not heading[0].isupper():
        return None
    if words[0] in _ARTICLES:
        heading = heading[0].lower() + heading[1:]
    return f"What should I know about {heading}?"


def suggestion(document_id: str, title: str, heading: tuple[str, ...]) -> Suggestion | None:
    """The question that a section's heading makes."""
    question = question_about(heading[-1]) if heading else None
    if question is None:
        return None
    return Suggestion(question=question, document_id=document_id, title=title or document_id, heading=heading)


def pick(documents: Iterable[Document | DocumentText], count: int) -> list[Suggestion]:
    """Questions over all documents: the best of each first, those before that ask how to do something."""
    ranked = list[tuple[int, int, Suggestion]]()
    for document in documents:
        suggestions = [suggestion(document.id, document.title, section.heading) for section in document.sections]
        best = sorted(
            (suggestion for suggestion in suggestions if suggestion is not None),
            key=lambda suggestion: _rank(suggestion.question),
        )
        ranked += [(n, _rank(suggestion.question), suggestion) for n, suggestion in enumerate(best[:_PER_DOCUMENT])]
    chosen: dict[str, Suggestion] = {}
    for _, _, picked in sorted(ranked, key=lambda rank_and_suggestion: rank_and_suggestion[:2]):
        chosen.setdefault(picked.question, picked)
    return list(chosen.values())[:count]


def _rank(question: str) -> int:
    return 1 if question.startswith("What should I know about") else 0


READ = 12
"""Documents whose headings are looked at."""
TRIED = 16
"""Questions tried at most, and for how long, in seconds."""
SECONDS = 4.0
FOUND = 3
"""Passages among which the section must be."""
EXAMPLES, FOLLOW_UPS = 4, 3


def is_answered(search: TurnSearch, collection: str, suggestion: Suggestion) -> bool:
    """Return whether a question is answered from the section that it is made of."""
    # Nobody waits for a cross-encoder to read whole passages: the sentences are enough.
    plain = replace(search, reranker=None)
    searched = plain.find(suggestion.question, collection=collection, k=2 * FOUND)
    first = [hit for hit in searched.hits[:FOUND] if hit.passage.document_id == suggestion.document_id]
    here = [hit for hit in first if tuple(hit.passage.heading) == suggestion.heading]
    language = language_of_hits(searched.hits, search.settings.index.language)
    likely = chances(searched.plan, searched.hits, language)
    if not here or decide(likely, search.settings.retrieval, may_ask=True) != "answer":
        return False
    evidence = select_evidence(here, limit=FOUND, budget=2000)
    read = search.read if search.reranker is not None else None
    return bool(best_sentences(suggestion.question, evidence, SupportScorer(evidence, language), read))
