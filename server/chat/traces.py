"""The part of the service that reads traces, and plays turns again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewriter.protocol import PassThroughRewriter
from server.chat.acting import acting
from server.chat.conversations import ConversationMixin
from server.chat.errors import InvalidRequest, Unavailable
from server.chat.translated import MAX_QUERY_CHARS, clean, found_or_missing, index_errors
from server.recorded import ReplayError
from server.replay import ReplayChanges, replay
from server.store import turns
from server.store.records import Trace, TraceSummary
from server.traces import grafted, restored
from server.tracing import Tracing
from server.turn.events import DoneEvent, Event
from server.turn.models import TurnModels
from text.names import NAME_RULE, is_name

MAX_LISTED = 1000
NO_MODEL = "none"


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """A turn played again: its trace then and now, and its events now."""

    record: Trace
    trace: Trace
    events: list[Event]

    def keep(self, path: Path, answer: str = "") -> None:
        """Add the turn to a file as a case, in the form that `anaphora eval` and `diagnose` take: with `answer` as the
        right one, else the one given now. Raises OSError."""
        known = path.read_text("utf-8").splitlines() if path.exists() else []
        rewrite = next((one for one in self.trace.steps if one.name == "rewrite"), None)
        asked: Mapping[str, Any] = rewrite.inputs if rewrite else {}
        searched: Mapping[str, Any] = rewrite.outputs if rewrite else {}
        cited = [one for event in self.events if event.type == "done" for one in event.citations]
        name, n = self.record.turn_id, sum(json.loads(line)["id"].startswith(self.record.turn_id) for line in known)
        row = {
            "id": f"{name}-{n + 1}" if n else name,
            "text": self.record.question,
            "question": self.record.question,
            "history": asked.get("history", []),
            "rewrite": searched.get("text", ""),
            "answer": answer or self.trace.answer,
            "documents": list(dict.fromkeys(one.document_id for one in cited)),
            "relevant": list(dict.fromkeys(one.passage_id for one in cited)),
            "quotes": list(dict.fromkeys(one.quote for one in cited if one.quote)),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


class TraceMixin(ConversationMixin):
    """Traces by turn."""

    @acting("review")
    async def trace(self, turn_id: str) -> Trace:
        """What happened in a turn. Raises NotFound where there is no trace (yet)."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        found = await self._read(turns.trace, key, self.principal)
        await self._note_read("turn.trace", key)
        return found_or_missing(found, "trace of turn", turn_id)

    @acting("review")
    async def traces(self, *, collection: str = "", limit: int = 50) -> list[TraceSummary]:
        """The newest turns that left a trace, newest first."""
        limit = max(0, min(limit, MAX_LISTED))
        return await self._read(turns.traced, self.principal, collection, limit)

    @acting("review")
    async def replay(self, turn_id: str, changes: ReplayChanges, model: str = "") -> ReplayedTurn:
        """Play a turn again with something changed; nothing of it is stored.

        `model` is one of `llm.choices` that is to answer, or `none`. Raises InvalidRequest, NotFound.
        """
        record = await self.trace(turn_id)
        stored = await self.stored_turn(record.turn_id)
        whose = await self.existing(record.collection)
        core = self.core

        if model:
            changes = replace(changes, another_model=True)
        chosen = core.models if model in ("", NO_MODEL) else core.chosen[self._demand_choice(model)]

        async def models() -> TurnModels:
            if model == NO_MODEL:
                return TurnModels(PassThroughRewriter())
            return await chosen.of_turn(None, whose.group)

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

    @acting("server")
    async def keep_case(self, played: ReplayedTurn, name: str, answer: str) -> None:
        """Add a turn that was played again to `gold/NAME.jsonl` of the home, for `anaphora diagnose`.

        `answer` is the right one; empty: the one given now. Raises InvalidRequest.
        """
        if not is_name(name):
            raise InvalidRequest(f"A file of cases is called by {NAME_RULE}.", code="invalid_name")
        await self.account("case.keep", played.record.turn_id, collection=played.record.collection)
        try:
            await asyncio.to_thread(played.keep, self.core.settings.home / "gold" / f"{name}.jsonl", answer)
        except (OSError, ValueError) as error:
            raise Unavailable(f"The case could not be added to {name}.jsonl: {error}.", code="store_failed") from error
