"""Questions made of headings: what a section is asked for by its title alone.

Whether a question is answered is not known here.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from index.documents import Document
from server.chat.authorization import ServiceBase, requires
from server.chat.collections import checked_name
from server.chat.error_mapping import index_errors, run_blocking
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


class SuggestionMixin(ServiceBase):
    """Questions to begin with, and to go on with."""

    @requires("ask")
    async def examples(self, collection: str) -> list[Suggestion]:
        """Questions over a spread of the collection's documents, those that ask how to do something first.

        Found once for each version of a collection. Raises NotFound.
        """
        name = checked_name(collection)
        ownership = await self.existing(name)
        with index_errors():
            opened = await run_blocking(lambda: self.core.opened.get(name))
            key = name, opened.version
            async with self.core.suggesting:
                if key not in self.core.suggested:
                    documents = await run_blocking(opened.documents)
                    looked_at = documents[:: max(1, len(documents) // READ)][:READ]
                    candidates = await run_blocking(
                        lambda: pick((opened.document(info.id) for info in looked_at), TRIED)
                    )
                    suggestions = await self._answered(name, ownership.group, candidates, EXAMPLES)
                    self.core.suggested = {old: was for old, was in self.core.suggested.items() if old[0] != name}
                    self.core.suggested[key] = suggestions
                return self.core.suggested[key]

    @requires("ask")
    async def follow_ups(self, turn_id: str) -> list[Suggestion]:
        """Suggest questions after a turn: about sections that it found, or next to the cited ones, and did not use.

        Raises NotFound.
        """
        turn = await self._turn(turn_id)
        if turn.status not in ("answered", "quoted") or turn.done is None or turn.evidence is None:
            return []
        ownership, cited = await self.existing(turn.collection), {c.passage_id for c in turn.done.citations}
        used = [passage for passage in turn.evidence.passages if passage.passage_id in cited]
        used_sections = {(passage.document_id, tuple(passage.heading)) for passage in used}
        places = [(p.document_id, p.title, tuple(p.heading)) for p in turn.evidence.passages]
        with index_errors():
            opened = await run_blocking(lambda: self.core.opened.get(turn.collection))
            for document_id in dict.fromkeys(passage.document_id for passage in used[:2]):
                document = await run_blocking(lambda: opened.document(document_id))  # noqa: B023
                near = [
                    n for n, section in enumerate(document.sections) if (document_id, section.heading) in used_sections
                ]
                for n in sorted(
                    {m for at in near for m in (at + 1, at - 1, at + 2) if 0 <= m < len(document.sections)}
                ):
                    places.append((document_id, document.title, document.sections[n].heading))
            seen = {turn.question.casefold()}
            candidates = [
                proposed
                for place in dict.fromkeys(places)
                if (place[0], place[2]) not in used_sections
                and (proposed := suggestion(*place))
                and proposed.question.casefold() not in seen
            ]
            return await self._answered(turn.collection, ownership.group, candidates, FOLLOW_UPS)

    async def _answered(
        self, collection: str, group: str, candidates: Sequence[Suggestion], count: int
    ) -> list[Suggestion]:
        """The first of the candidates that would be answered from their own section."""
        search = await self.core.engine.search(group)
        until, suggestions = time.monotonic() + SECONDS, list[Suggestion]()
        for candidate in candidates[:TRIED]:
            if len(suggestions) == count or time.monotonic() > until:
                break
            if await asyncio.to_thread(_is_answered, search, collection, candidate):
                suggestions.append(candidate)
        return suggestions


def _is_answered(search: TurnSearch, collection: str, suggestion: Suggestion) -> bool:
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
