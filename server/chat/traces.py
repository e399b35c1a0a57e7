"""The part of the service that reads traces, and plays turns again."""

from __future__ import annotations

from dataclasses import dataclass

from server.chat.acting import acting
from server.chat.conversations import MAX_QUERY_CHARS, ConversationMixin, clean, found_or_missing
from server.chat.errors import InvalidRequest
from server.chat.translated import index_errors, store_errors
from server.replay import ReplayChanges, ReplayError, replay
from server.store import turns
from server.store.records import Trace, TraceSummary
from server.traces import grafted, restored
from server.tracing import Tracing
from server.turn.events import DoneEvent, Event
from server.turn.models import TurnModels

MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """A turn played again: its trace then and now, and its events now."""

    record: Trace
    trace: Trace
    events: list[Event]


class TraceMixin(ConversationMixin):
    """Traces by turn."""

    @acting("review")
    async def trace(self, turn_id: str) -> Trace:
        """What happened in a turn. Raises NotFound where there is no trace (yet)."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        with store_errors():
            found = await self.core.database.read(lambda connection: turns.trace(connection, key, self.seen))
        await self._note_read("turn.trace", key)
        return found_or_missing(found, "trace of turn", turn_id)

    @acting("review")
    async def traces(self, *, collection: str = "", limit: int = 50) -> list[TraceSummary]:
        """The newest turns that left a trace, newest first."""
        limit = max(0, min(limit, MAX_LISTED))
        with store_errors():
            return await self.core.database.read(
                lambda connection: turns.traced(connection, self.seen, collection, limit)
            )

    @acting("review")
    async def replay(self, turn_id: str, changes: ReplayChanges) -> ReplayedTurn:
        """Play a turn again with something changed; nothing of it is stored. Raises InvalidRequest, NotFound."""
        record = await self.trace(turn_id)
        stored = await self.stored_turn(record.turn_id)
        whose = await self.existing(record.collection)
        core = self.core

        async def models() -> TurnModels:
            return await core.models.of_turn(None, whose.group)

        # Of its own, so that nothing of it is sent, and its texts are there to be compared.
        tracing = Tracing(content=True)
        turn = tracing.begin_turn(
            record.turn_id, record.conversation_id, record.collection, record.question, record.request
        )
        try:
            with index_errors(), turn:
                events = await replay(
                    record,
                    collection=core.opened.get,
                    reranker=core.models.reranker,
                    models=models,
                    settings=core.settings,
                    changes=changes,
                )
        except ReplayError as error:
            raise InvalidRequest(str(error), code="cannot_replay") from error
        events = restored(events, stored.rewrite, stored.evidence, stored.done)
        last = events[-1]
        status = last.status if isinstance(last, DoneEvent) else "failed"
        answer = last.answer if isinstance(last, DoneEvent) else ""
        return ReplayedTurn(record, grafted(tracing.end(turn, status, answer), record), events)
