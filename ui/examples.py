"""Example questions for an empty conversation, drawn from the headings of the documents at hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from server.chat import ChatService, DocumentText

_READ = 12
"""Documents whose headings are looked at."""


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


@dataclass(frozen=True, slots=True)
class Example:
    """A question that the document of this title should answer."""

    question: str
    title: str


def question_about(heading: str) -> str | None:
    """A question a section of this heading answers; None where the heading says too little."""
    heading = re.sub(r"[`*_#]|\{[^}]*\}|^\W*\d+(\.\d+)*\.?\s+", "", heading).strip().rstrip(".:")
    words = heading.lower().split()
    if not 4 <= len(heading) <= 60 or len(words) > 8 or all(word in _STANDING for word in words):
        return None
    if heading.endswith("?"):
        return heading
    if words[0] in _IMPERATIVE and len(words) > 1:
        return f"How do I {heading[0].lower()}{heading[1:]}?"
    if len(words) == 1 and words[0].isascii() and not heading[0].isupper():
        return None
    return f"What should I know about {heading}?"


def pick(documents: Iterable[DocumentText], count: int) -> list[Example]:
    """One question a document at most, those that ask how to do something first."""
    best: list[tuple[int, Example]] = []
    for document in documents:
        asked = [question for section in document.sections if (question := _of(section.heading)) is not None]
        if asked:
            question = min(asked, key=_rank)
            best.append((_rank(question), Example(question, document.title or document.id)))
    best.sort(key=lambda one: one[0])
    chosen: dict[str, Example] = {}
    for _, example in best:
        chosen.setdefault(example.question, example)
    return list(chosen.values())[:count]


def _of(heading: tuple[str, ...]) -> str | None:
    return question_about(heading[-1]) if heading else None


def _rank(question: str) -> int:
    return 1 if question.startswith("What should I know about") else 0


async def examples(service: ChatService, collection: str, count: int = 4) -> list[Example]:
    """Questions over a spread of the collection's documents."""
    summaries = await service.documents(collection)
    step = max(1, len(summaries) // _READ)
    read = [await service.document(collection, summary.id) for summary in summaries[::step][:_READ]]
    return pick(read, count)
