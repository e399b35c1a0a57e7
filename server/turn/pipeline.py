"""A turn from question to `done`: rewrite, search, rerank, evidence, reply, as one stream of typed events.

`TurnEngine` joins what the other modules of this folder do and decides only the order, the time limits, what becomes
of a failure, and what is said where no model speaks. It keeps nothing between turns: conversations, traces and queues
belong to its caller.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from index.errors import IndexingError
from index.query import Where
from rewriter.conversation import Conversation
from server.engines.errors import EngineError
from server.recipes.base import RecipePool, cook
from server.recipes.registry import recipes_of, tools_of
from server.recipes.splitting import QuestionPart
from server.settings import Settings
from server.turn.events import (
    Event,
    EvidenceEvent,
    NearestEvent,
)
from server.turn.models import ModelSource, TurnModels
from server.turn.open_turn import OpenTurn
from server.turn.own_words import courtesy
from server.turn.parts import before, joined, parts_for
from server.turn.prompt import TurnPrompt
from server.turn.search import Searchable, TurnSearch
from server.turn.steps import Stopwatch, TurnFailed, in_thread
from text.recorder import current


class TurnEngine:
    """Answers questions over collections; serves any number of turns at once.

    `collection` opens one by name, `models` is asked anew in every turn.
    """

    def __init__(
        self,
        *,
        collection: Callable[[str], Searchable],
        models: ModelSource,
        settings: Settings,
    ) -> None:
        self._collection = collection
        self._models = models
        self._settings = settings

    async def search(self, group: str = "") -> TurnSearch:
        """The searching half, with what would work on a turn of `group` that began now."""
        return self._search(await self._models.of_search(group))

    def _search(self, models: TurnModels) -> TurnSearch:
        return TurnSearch(
            collection=self._collection,
            rewriter=models.rewriter,
            settings=self._settings,
            reranker=models.reranker,
        )

    def prompted(self, prompt: TurnPrompt) -> TurnPrompt:
        """What a model is sent: the prompt as it was built."""
        return prompt

    async def run(
        self,
        question: str,
        *,
        collection: str,
        conversation: Conversation = Conversation(),  # noqa: B008  (frozen)
        search_for: str | None = None,
        where: Where | None = None,
        turn_id: str = "",
        conversation_id: str | None = None,
        answer_tokens: int | None = None,
        group: str = "",
        recipe: str = "",
        known: dict[str, int] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one turn, ending with exactly one `done` or `error`.

        `recipe` is a way of answering (`answer.recipe`; empty: the settings'). `known` makes it a part of another turn:
        it numbers its evidence as known there by passage id, asks nothing back and is not taken apart.
        `group` is whose the turn is: nothing that is remembered for it is shared with other groups.
        `search_for` is a search text written by a person: it stands in for the rewrite. Closing the
        iterator, or cancelling the task that reads it, stops the model's request at once.
        """
        models = await self._models.of_turn(answer_tokens, group)
        current().label(engine=models.name, style=models.style)
        if models.reranker is not None:
            current().label(reranker=models.reranker.name, reads_conversations=models.reranker.reads_conversations)
        search, watch = self._search(models), Stopwatch()
        ids = turn_id or uuid.uuid4().hex, conversation_id
        turn = OpenTurn(self._settings, question, conversation, models, watch, ids, known)
        way = recipe or self._settings.answer.recipe
        steps = recipes_of(way)
        if not search_for and (reply := courtesy(question)):
            for event in turn.courteous(reply):
                yield event
            return
        # Beside the rewriting: neither needs the other.
        opened = asyncio.create_task(in_thread(lambda: search.collection(collection)))
        try:
            tools = tools_of(self._settings, models.chat_model, question) if steps else None
            plan = await search.planned(question, conversation, search_for, watch)
            searched = await opened
            parts, hits = tuple[QuestionPart, ...](), None
            if known is None and not search_for:
                parts, hits = await parts_for(
                    way,
                    plan,
                    lambda: in_thread(lambda: turn.hits(search, searched, plan, where), lambda: watch.running),
                    lambda: tools_of(self._settings, models.chat_model, question).asker if models.chat_model else None,
                )
            if parts:
                numbers = dict[str, int]()
                runs = [
                    self.run(
                        part.text,
                        collection=collection,
                        conversation=before(conversation, plan, parts[0], part),
                        where=where,
                        turn_id=ids[0],
                        conversation_id=conversation_id,
                        answer_tokens=answer_tokens,
                        group=group,
                        recipe="plain",
                        known=numbers,
                    )
                    for part in parts
                ]
                async with aclosing(joined(plan, parts, runs, watch)) as told:
                    async for event in told:
                        yield event
                return
            yield plan.event()
            ready = await in_thread(
                lambda: turn.prepared(search, searched, plan, where, hits, wide=bool(steps)), lambda: watch.running
            )
            yield EvidenceEvent(
                passages=list(ready.passages),
                reranked=ready.reranked,
                seconds=watch.of("search", "rerank"),
            )
            if ready.prompt is None or models.chat_model is None:
                for event in turn.unasked(plan, ready):
                    yield event
                return
            if ready.cut and ready.near:
                yield NearestEvent(quotes=ready.near)
            pool, prompt = RecipePool(plan.meaning, ready.passages), ready.prompt
            if tools is not None:
                current().label(recipe=way)
                async with aclosing(cook(steps, pool, tools)) as cooking:
                    async for one in cooking:
                        if isinstance(one, RecipePool):
                            pool = one
                        else:
                            yield one
                prompt = await in_thread(lambda: turn.prompt(plan, pool))
            prompt = self.prompted(prompt)
            async with aclosing(turn.written(models.chat_model, prompt, pool.answer)) as written:
                async for event in written:
                    yield event
            for event in await turn.ending(plan, ready):
                yield event
        except (TurnFailed, IndexingError, EngineError) as failure:
            yield turn.failed(failure)
        finally:
            opened.cancel()
