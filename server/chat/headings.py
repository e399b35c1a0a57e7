"""Questions made of headings: what a section is asked for by its title alone.

Whether a question is answered is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from index.documents import Document
from server.chat.types import DocumentText, Suggestion

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
        made = [suggestion(document.id, document.title, section.heading) for section in document.sections]
        best = sorted((one for one in made if one is not None), key=lambda one: _rank(one.question))
        ranked += [(n, _rank(one.question), one) for n, one in enumerate(best[:_PER_DOCUMENT])]
    chosen: dict[str, Suggestion] = {}
    for _, _, one in sorted(ranked, key=lambda one: one[:2]):
        chosen.setdefault(one.question, one)
    return list(chosen.values())[:count]


def _rank(question: str) -> int:
    return 1 if question.startswith("What should I know about") else 0
