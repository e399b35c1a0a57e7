"""`SuggestionService`: questions to begin with, among the headings of documents."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import regex

from index.documents import Document, MetadataValue, Where, in_scope
from server.chat.base import ServiceBase, checked_filter, checked_name, requires, run_blocking
from server.chat.documents import DocumentText
from server.store import turns
from server.store.records import View
from server.turn.decision import chances, decide, language_of_hits
from server.turn.evidence import best_sentences, select_evidence
from server.turn.search import TurnSearch
from server.turn.support import SupportScorer
from text.sanitize import is_showable

if TYPE_CHECKING:
    from index.collection import Collection


class Suggestion(View):
    """A question that the section of this document should answer; an operator's names none."""

    question: str
    document_id: str = ""
    title: str = ""
    heading: tuple[str, ...] = ()


_PER_DOCUMENT = 3


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASKING = _words(
    """how what when where which who whom whose why can could do does is are may must should will
    wie was wann wo welche welcher welches wer warum wieso kann können darf muss ist sind
    cómo qué cuándo dónde cuál cuáles quién por puedo puede hay comment que quel quelle quels quelles quand où qui
    pourquoi combien peut-on puis-je est-ce كيف ما ماذا متى أين لماذا من هل كم"""
)
_BEING = _words("is are was were can must should will")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")


def question_of(heading: str) -> str | None:
    """The question that a heading is, without its number and marks; None where it asks nothing by itself."""
    heading = re.sub(r"[`*_#]|\{[^}]*\}|^\W*\d+(\.\d+)*\.?\s+", "", heading).strip()
    words = heading.lower().lstrip("¿").split()
    if not 4 <= len(heading) <= 80:
        return None
    if heading.endswith(("?", "？", "؟")):
        return heading if _UNSPACED.search(heading) or (len(words) > 2 and words[0] in _ASKING) else None
    return f"{heading}?" if len(words) > 2 and words[0] == "what" and words[1] in _BEING else None


def suggestion(document_id: str, title: str, heading: tuple[str, ...]) -> Suggestion | None:
    """The question that a section's heading is."""
    question = question_of(heading[-1]) if heading else None
    if question is None:
        return None
    return Suggestion(question=question, document_id=document_id, title=title or document_id, heading=heading)


def pick(documents: Iterable[Document | DocumentText], count: int) -> list[Suggestion]:
    """Questions over all documents: the first of each, then the second of each."""
    ranked = list[tuple[int, Suggestion]]()
    for document in documents:
        suggestions = [suggestion(document.id, document.title, section.heading) for section in document.sections]
        ranked += enumerate(question for question in suggestions if question is not None)
    chosen: dict[str, Suggestion] = {}
    for n, picked in sorted(ranked, key=lambda each: each[0]):
        if n < _PER_DOCUMENT:
            chosen.setdefault(picked.question, picked)
    return list(chosen.values())[:count]


READ, OPENED = 60, 600
"""Documents whose headings are looked at, and opened to see whether they are within a filter."""
CITED_SECONDS, KEPT_SECONDS, REMEMBERED = 30 * 86_400, 86_400, 100
"""Since when citations count, how long suggestions are kept, and for how many filters."""
TRIED = 16
"""Questions tried at most, and for how long, in seconds."""
SECONDS = 4.0
FOUND = 3
"""Passages among which the section must be."""
EXAMPLES = 4


def candidates_of(
    opened: Collection, where: Where, cited: Iterable[tuple[str, str, tuple[str, ...]]]
) -> list[Suggestion]:
    """Return questions to try: headings of the sections cited most, then those of documents within a filter. Blocks."""
    infos = opened.documents()
    spread = infos[:: max(1, len(infos) // (OPENED if where else READ))]
    documents = (opened.document(info.id) for info in spread)
    within = (row for row in documents if in_scope(where, {**row.metadata, "document_id": row.id}))
    suggestions = (proposed for place in cited if (proposed := suggestion(*place)))
    picked = {proposed.question: proposed for proposed in (*suggestions, *pick(islice(within, READ), TRIED))}
    return list(picked.values())


def is_answered(search: TurnSearch, collection: str, suggestion: Suggestion, where: Where) -> bool:
    """Return whether a question is answered from the section that it heads, within a filter."""
    searched = search.find(suggestion.question, collection=collection, k=2 * FOUND, where=where or None)
    first = [hit for hit in searched.hits[:FOUND] if hit.passage.document_id == suggestion.document_id]
    here = [hit for hit in first if tuple(hit.passage.heading) == suggestion.heading]
    language = language_of_hits(searched.hits, search.settings.index.language)
    likely = chances(searched.plan, searched.hits, language, search.collection(collection))
    if not here or decide(likely, search.settings.retrieval.profile, may_ask=True) != "answer":
        return False
    evidence = select_evidence(here, limit=FOUND, budget=2000)
    scorer = SupportScorer(evidence, language)
    by_sentence = search.sentence_chances(searched.plan, evidence, here, scorer)
    return bool(best_sentences(suggestion.question, evidence, scorer, by_sentence))


class SuggestionService(ServiceBase):
    """Suggestions of collections that whoever acts may ask."""

    @requires("ask")
    async def examples(self, collection: str, where: Where | None = None) -> list[Suggestion]:
        """The operator's questions (`server.questions`), then headings that are questions and are answered.

        Those of sections that answers cited most of late come first; what people typed is shown to nobody. With `where`
        only documents within it are looked at. Headings are tried once a day, and anew for each version of a
        collection. Raises NotFound, InvalidRequest.
        """
        where = checked_filter(where) or {}
        name = checked_name(collection)
        ownership = await self.existing(name)
        curated = [Suggestion(question=question) for question in self.core.settings.server.questions.get(name, ())]
        if len(curated) >= EXAMPLES:
            return curated
        opened = await run_blocking(lambda: self.core.opened.get(name))
        key = name, opened.version, int(time.time() // KEPT_SECONDS), json.dumps(where, sort_keys=True)
        async with self.core.suggesting:
            if key not in self.core.suggested:
                cited = await self._read(turns.cited_most, name, time.time() - CITED_SECONDS)
                candidates = await run_blocking(partial(candidates_of, opened, where, cited))
                suggestions = await self._answered(name, ownership.group, candidates, where)
                same = {old: was for old, was in self.core.suggested.items() if old[0] != name or old[:3] == key[:3]}
                self.core.suggested = same if len(same) < REMEMBERED else {}
                self.core.suggested[key] = suggestions
            curated_texts = {example.question for example in curated}
            chosen = [example for example in self.core.suggested[key] if example.question not in curated_texts]
            return [*curated, *chosen][:EXAMPLES]

    @requires("ask")
    async def filters(self, collection: str) -> dict[str, list[MetadataValue]]:
        """Return the values of each field that `server.filters` names, as people count. Raises NotFound."""
        name = checked_name(collection)
        await self.existing(name)
        opened = await run_blocking(lambda: self.core.opened.get(name))
        fields = self.core.settings.server.filters.get(name, ())
        return {field: _choices(await run_blocking(partial(opened.metadata_values, field))) for field in fields}

    async def _answered(
        self, collection: str, group: str, candidates: Sequence[Suggestion], where: Where
    ) -> list[Suggestion]:
        """The first of the candidates that would be answered from their own section, within a filter."""
        search = await self.core.engine.search(group)
        until, suggestions = time.monotonic() + SECONDS, list[Suggestion]()
        for candidate in candidates[:TRIED]:
            if len(suggestions) == EXAMPLES or time.monotonic() > until:
                break
            if await run_blocking(partial(is_answered, search, collection, candidate, where)):
                suggestions.append(candidate)
        return suggestions


MAX_CHOICES, MAX_CHOICE_CHARS = 100, 60


def _choices(values: Sequence[MetadataValue]) -> list[MetadataValue]:
    """Values that a person can choose between: version 9 before 10."""

    def natural(value: MetadataValue) -> list[str | int]:
        return [int(part) if n % 2 else part for n, part in enumerate(re.split(r"(\d+)", str(value).casefold()))]

    choices = [value for value in values if len(text := str(value)) <= MAX_CHOICE_CHARS and text and is_showable(text)]
    return sorted(choices, key=natural)[:MAX_CHOICES]
