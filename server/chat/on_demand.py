"""What is made of evidence on demand has in common: it is kept, and a language model is asked with patience.

What was made is found again by everything it depended on: the group by which the collection is reached, the
collection's version, the place, the model, the prompts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from server.chat.acting import Acting
from server.chat.collections import checked_name
from server.chat.error_mapping import NotFound, Unavailable, in_thread
from server.chat.models import salted
from server.chat.turns import CHARS_PER_TOKEN
from server.evidence.asking import QuoteAsker
from server.store import standalone
from server.store.records import View

if TYPE_CHECKING:
    from index.collection import Collection
    from server.store.records import StoredTurn
    from server.turn.events import Evidence

V = TypeVar("V", bound=View)


class OnDemand(Acting):
    """The part of the service that is asked beside the turns."""

    async def _source(self, turn_id: str, n: int) -> tuple[StoredTurn, Evidence]:
        """A turn, and its source `n`. Raises NotFound."""
        turn = await self._turn(turn_id)
        for passage in turn.evidence.passages if turn.evidence else ():
            if passage.n == n:
                return turn, passage
        raise NotFound(f"The turn has no source {n}.", code="source_not_found", param="n")

    async def _once(
        self,
        did: str,
        view: type[V],
        collection: str,
        document_id: str,
        parts: Sequence[object],
        make: Callable[[Collection, str], Awaitable[tuple[V, bool]]],
        *,
        asks: bool,
    ) -> V:
        """What was made of these `parts` of a document before, or is made now, of the open collection and for a group.

        It is kept where everything that was to be asked was answered, but not where its version was replaced meanwhile:
        a document may have been erased with it. `asks` whether a model may be asked; `did` is said in the audit log.
        """
        core, llm = self.core, self.core.settings.llm
        name = checked_name(collection) if collection else await self.default_collection()
        whose = await self.existing(name)
        opened = await in_thread(lambda: core.opened.get(name))
        version = opened.version
        text = json.dumps((whose.group, name, version, document_id, *parts, llm.model, llm.remote_name))
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if (kept := await self._read(standalone.find, key)) is not None:
            return view.model_validate_json(kept).model_copy(update={"cached": True})
        if asks:
            await core.limits.demand_tokens(self.principal)
        self.note(did, document_id, collection=name, group=whose.group)
        made, whole = await make(opened, whose.group)
        if whole and (await in_thread(lambda: core.opened.get(name))).version == version:
            row = name, version, document_id, self.principal.id, made.model_dump_json()
            await self._write(standalone.keep, key, *row)
        return made

    @asynccontextmanager
    async def _asking(self, group: str) -> AsyncIterator[QuoteAsker | None]:
        """Whoever asks the model of the settings, None where there is none; what was said counts for who acts.

        Raises Unavailable where turns left no time for it.
        """
        core, llm = self.core, self.core.settings.llm
        asker = None
        if llm.model.casefold() != "none":
            model = salted((await core.models.keeper.engine()).chat_model(), group)
            asker = QuoteAsker(model, llm.total_seconds, core.patience) if model is not None else None
        try:
            async with asyncio.timeout(core.settings.server.turn_seconds):
                yield asker
        except TimeoutError as error:
            raise Unavailable(
                "There was no time for this beside the questions that are being answered. Try again later.",
                code="standalone_timeout",
            ) from error
        finally:
            if asker is not None and asker.chars:
                await core.limits.spend(self.principal, math.ceil(asker.chars / CHARS_PER_TOKEN))
