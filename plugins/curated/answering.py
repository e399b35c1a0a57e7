"""Give a turn the curated answer to its question: the one that means the same, is in scope and has not expired."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from index.documents import Hit, Where, in_scope
from index.errors import DocumentNotFound
from plugins.curated import CuratedSettings, store
from plugins.curated.matching import Matcher
from plugins.curated.store import CuratedAnswer
from server.store import StoreError
from server.store.reviewed import MarkedPassage
from server.turn.evidence import numbered
from server.turn.models import TurnModels
from server.turn.reply import WrittenAnswer
from server.turn.run import Answerer, TurnInput
from server.turn.search import Searchable, SearchPlan

if TYPE_CHECKING:
    from index.collection import Collection
    from server.chat.service import ServiceCore


def answerer(core: ServiceCore) -> Answerer | None:
    """Return what finds the curated answer to a question; None while they are off."""
    if not core.settings.of(CuratedSettings).enabled:
        return None
    matcher = Matcher()

    def answered(
        request: TurnInput, plan: SearchPlan, searched: Searchable, models: TurnModels
    ) -> WrittenAnswer | None:
        database, collection = core.database, core.opened.get(request.collection)
        try:
            answers = database.read_blocking(store.listing, request.collection, at=time.time())
        except StoreError:
            return None  # a turn that cannot be stored says so itself
        wanted = [answer for answer in answers if in_scope(answer.scope, request.where or {})]
        match = matcher.best(plan, wanted, searched, core.models.encoder(), models.reranker) if wanted else None
        if match is None:
            return None
        hits = cited(collection, match)
        if request.where and not (
            len(hits) == len(match.passages) and all(_within(hit, request.where) for hit in hits)
        ):
            return None
        database.write_later(lambda connection: store.count_hit(connection, match.id), alone=False)
        passages = tuple(numbered(n, hit) for n, hit in enumerate(hits, start=1))
        return WrittenAnswer(match.id, match.answer, passages, match.refuses)

    return answered


def _within(hit: Hit, where: Where) -> bool:
    return in_scope(where, {**hit.passage.metadata, "document_id": hit.passage.document_id})


def cited(collection: Collection, answer: CuratedAnswer) -> list[Hit]:
    """Return the passages that an answer cites, as far as the documents still hold their words."""
    hits = (_hit(collection, mark) for mark in answer.passages)
    return [hit for hit in hits if hit is not None]


def _hit(collection: Collection, mark: MarkedPassage) -> Hit | None:
    try:
        text = collection.document(mark.document_id).text
    except DocumentNotFound:
        return None
    start = mark.start if text.startswith(mark.quote, mark.start) else text.find(mark.quote)
    passages = collection.passages(mark.document_id)
    if start < 0 or not passages:
        return None
    passage = next((candidate for candidate in passages if start < candidate.end), passages[-1])
    return Hit(replace(passage, text=mark.quote, start=start, end=start + len(mark.quote)), 1.0)
