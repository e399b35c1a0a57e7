"""Write, read and delete curated answers. Agents of a collection do."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from index.documents import MetadataValue
from plugins.curated import CuratedSettings, store
from plugins.curated.answering import cited
from plugins.curated.store import CuratedAnswer
from server.api.dependencies import CollectionName, Listing, StrictBody, service_of
from server.chat.base import (
    Forbidden,
    InvalidRequest,
    clean,
    found_or_missing,
    requires,
    run_blocking,
)
from server.chat.reviews import ReviewService
from server.store.reviewed import PassageMark

MOST = 500
"""Answers of one collection: each question is compared with all of them."""
MAX_QUESTION_CHARS, MAX_ANSWER_CHARS, MAX_NAME_CHARS = 500, 8000, 200

router = APIRouter(tags=["Curated answers"])


class NewAnswer(StrictBody):
    """An answer as it is written."""

    id: str = Field("", max_length=100, description="The answer to change; what is left out stays. Empty: a new one.")
    questions: tuple[Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS)], ...] = Field(
        (), max_length=20, description="Ways to ask for the same, each understood alone."
    )
    answer: str = Field("", max_length=MAX_ANSWER_CHARS, description="Markdown; `[1]` cites the first passage.")
    refuses: bool = Field(False, description="Never answer this: the answer says where to ask instead.")
    passages: tuple[PassageMark, ...] | None = Field(None, max_length=10, description="What the answer stands on.")
    scope: dict[str, MetadataValue | list[MetadataValue]] = Field(
        {}, max_length=20, description="Only for who searches with this filter, or a narrower one."
    )
    keeper: str = Field("", max_length=MAX_NAME_CHARS, description="Who keeps it right; empty: who writes it.")
    expires: float | None = Field(None, ge=0, le=1e12, description="When it ends, in seconds since the epoch.")


class CuratedView(CuratedAnswer):
    """An answer as it is listed; of its passages `lost` are no longer in the documents."""

    lost: int = 0


class CuratedService(ReviewService):
    """Curated answers of the collections that `principal` reaches."""

    @requires("review")
    async def answers(self, collection: str) -> list[CuratedView]:
        """Return the answers of a collection, newest first. Raises NotFound."""
        await self._demand(collection)
        return [await self._view(answer) for answer in await self._read(store.listing, collection)]

    @requires("review")
    async def put(self, collection: str, new: NewAnswer) -> CuratedView:
        """Keep an answer, or change the one with its id. Raises NotFound, InvalidRequest."""
        group, answer_id = await self._demand(collection), new.id
        before = found_or_missing(await self._find(collection, answer_id), "answer", answer_id) if answer_id else None
        fields = new.model_dump(include=new.model_fields_set - {"passages"})
        values = (before.model_dump() if before else {}) | fields
        if new.passages is not None:
            values["passages"] = await self._quoted(collection, new.passages)
        questions = (clean(text, MAX_QUESTION_CHARS, "questions").strip() for text in values.get("questions", ()))
        answer = clean(values.get("answer", ""), MAX_ANSWER_CHARS, "answer").strip()
        values["questions"] = tuple(dict.fromkeys(filter(None, questions)))
        if not (values["questions"] and answer):
            raise InvalidRequest("A curated answer needs a question and an answer.", param="answer")
        if not before and len(await self._read(store.listing, collection)) >= MOST:
            raise InvalidRequest(f"A collection may have {MOST} curated answers. Delete one first.")
        now, who = time.time(), self.principal
        defaults: dict[str, Any] = {"refuses": False, "passages": (), "scope": {}, "expires": None, "created": now}
        stored = CuratedAnswer(
            **{
                **defaults,
                **values,
                "id": answer_id or uuid.uuid4().hex,
                "collection": collection,
                "answer": answer,
                "keeper": clean(values.get("keeper", ""), MAX_NAME_CHARS, "keeper").strip() or who.name,
                "owner": who.id,
                "updated": now,
                "hits": before.hits if before else 0,
                "hit": before.hit if before else None,
            }
        )
        await self.account("curated.put", stored.id, collection=collection, group=group)
        await self._write(store.put, stored)
        return await self._view(stored)

    @requires("review")
    async def remove(self, collection: str, answer_id: str) -> None:
        """Delete an answer. Raises NotFound."""
        group = await self._demand(collection)
        found_or_missing(await self._find(collection, answer_id), "answer", answer_id)
        await self.account("curated.delete", answer_id, collection=collection, group=group)
        await self._write(store.remove, collection, answer_id)

    async def _demand(self, collection: str) -> str:
        """Return the group by which the collection is reached. Raises NotFound, and Forbidden while answers are off."""
        if not self.core.settings.of(CuratedSettings).enabled:
            raise Forbidden("Curated answers are off; an operator sets plugins.curated.enabled.")
        return (await self.existing(collection)).group

    async def _find(self, collection: str, answer_id: str) -> CuratedAnswer | None:
        return await self._read(store.find, collection, answer_id)

    async def _view(self, answer: CuratedAnswer) -> CuratedView:
        passages = await run_blocking(lambda: cited(self.core.opened.get(answer.collection), answer))
        return CuratedView(**dict(answer), lost=len(answer.passages) - len(passages))


Curated = Annotated[CuratedService, service_of(CuratedService)]
AnswerId = Annotated[str, Path(description="The answer's id.", max_length=100)]


@router.get("/v1/collections/{collection}/curated", summary="List curated answers")
async def list_curated(collection: CollectionName, curated: Curated) -> Listing[CuratedView]:
    """List the answers that people wrote ahead, with how often each was given, newest first."""
    return Listing(data=[*await curated.answers(collection)])


@router.post("/v1/collections/{collection}/curated", status_code=201, summary="Write or change a curated answer")
async def write_curated(collection: CollectionName, body: NewAnswer, curated: Curated) -> CuratedView:
    """Answer a question ahead: who asks for the same gets it before any model is asked. With the `id` of an answer,
    change what is given of it; the rest stays."""
    return await curated.put(collection, body)


@router.delete("/v1/collections/{collection}/curated/{answer}", status_code=204, summary="Delete a curated answer")
async def delete_curated(collection: CollectionName, answer: AnswerId, curated: Curated) -> None:
    """Delete it: its questions are answered from the documents again."""
    await curated.remove(collection, answer)
