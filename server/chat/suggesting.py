"""The part of the service that suggests questions: made of headings, and only those that are known to be answered.

A heading makes a question by its form alone (`server.chat.headings`). It is suggested where a search for it finds its
section among the first passages, the decision model would answer, and a sentence there speaks to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from server.chat.acting import Acting, acting
from server.chat.collections import checked_name
from server.chat.headings import pick, suggestion
from server.chat.translated import in_thread, index_errors
from server.chat.types import Suggestion
from server.turn.decision import chances, decide, language_of_hits
from server.turn.evidence import best_sentences, select_evidence
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer

READ = 12
"""Documents whose headings are looked at."""
TRIED = 16
"""Questions tried at most, and for how long, in seconds."""
SECONDS = 4.0
FOUND = 3
"""Passages among which the section must be."""
EXAMPLES, FOLLOW_UPS = 4, 3


class SuggestionMixin(Acting):
    """Questions to begin with, and to go on with."""

    @acting("ask")
    async def examples(self, collection: str) -> list[Suggestion]:
        """Questions over a spread of the collection's documents, those that ask how to do something first.

        Found once for each version of a collection. Raises NotFound.
        """
        name = checked_name(collection)
        whose = await self.existing(name)
        with index_errors():
            opened = await in_thread(lambda: self.core.opened.get(name))
            key = name, opened.version
            async with self.core.suggesting:
                if key not in self.core.suggested:
                    known = await in_thread(opened.documents)
                    looked_at = known[:: max(1, len(known) // READ)][:READ]
                    candidates = await in_thread(lambda: pick((opened.document(info.id) for info in looked_at), TRIED))
                    found = await self._answered(name, whose.group, candidates, EXAMPLES)
                    self.core.suggested = {old: was for old, was in self.core.suggested.items() if old[0] != name}
                    self.core.suggested[key] = found
                return self.core.suggested[key]

    @acting("ask")
    async def follow_ups(self, turn_id: str) -> list[Suggestion]:
        """Questions after a turn: about sections that it found or that stand beside what it cites, and did not use.

        Raises NotFound.
        """
        turn = await self._turn(turn_id)
        if turn.status not in ("answered", "quoted") or turn.done is None or turn.evidence is None:
            return []
        whose, cited = await self.existing(turn.collection), {c.passage_id for c in turn.done.citations}
        used = [passage for passage in turn.evidence.passages if passage.passage_id in cited]
        taken = {(passage.document_id, tuple(passage.heading)) for passage in used}
        places = [(p.document_id, p.title, tuple(p.heading)) for p in turn.evidence.passages]
        with index_errors():
            opened = await in_thread(lambda: self.core.opened.get(turn.collection))
            for document_id in dict.fromkeys(passage.document_id for passage in used[:2]):
                document = await in_thread(lambda: opened.document(document_id))  # noqa: B023
                near = [n for n, one in enumerate(document.sections) if (document_id, one.heading) in taken]
                for n in sorted(
                    {m for at in near for m in (at + 1, at - 1, at + 2) if 0 <= m < len(document.sections)}
                ):
                    places.append((document_id, document.title, document.sections[n].heading))
            asked = {turn.question.casefold()}
            candidates = [
                one
                for place in dict.fromkeys(places)
                if (place[0], place[2]) not in taken
                and (one := suggestion(*place))
                and one.question.casefold() not in asked
            ]
            return await self._answered(turn.collection, whose.group, candidates, FOLLOW_UPS)

    async def _answered(
        self, collection: str, group: str, candidates: Sequence[Suggestion], count: int
    ) -> list[Suggestion]:
        """The first of the candidates that would be answered from their own section."""
        search = await self.core.engine.search(group)
        until, found = time.monotonic() + SECONDS, list[Suggestion]()
        for one in candidates[:TRIED]:
            if len(found) == count or time.monotonic() > until:
                break
            if await asyncio.to_thread(_is_answered, search, collection, one):
                found.append(one)
        return found


def _is_answered(search: TurnSearch, collection: str, one: Suggestion) -> bool:
    # Nobody waits for a cross-encoder to read whole passages: the sentences are enough.
    plain = replace(search, reranker=None)
    found = plain.find(one.question, collection=collection, k=2 * FOUND)
    first = [hit for hit in found.hits[:FOUND] if hit.passage.document_id == one.document_id]
    here = [hit for hit in first if tuple(hit.passage.heading) == one.heading]
    language = language_of_hits(found.hits, search.settings.index.language)
    likely = chances(found.plan, found.hits, language)
    if not here or decide(likely, search.settings.retrieval, may_ask=True) != "answer":
        return False
    evidence = select_evidence(here, limit=FOUND, budget=2000)
    read = search.read if search.reranker is not None else None
    return bool(best_sentences(one.question, evidence, SupportScorer(evidence, language), read))
