"""What is made of evidence on demand has in common: it is kept, and a language model is asked with patience.

What was made is found again by everything it depended on: the group by which the collection is reached, the
collection's version, the place, the model, the prompts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from server.chat.acting import Acting
from server.chat.conversations import MAX_QUERY_CHARS, clean
from server.chat.errors import NotFound, Unavailable
from server.chat.models import salted
from server.chat.translated import in_thread, store_errors
from server.chat.turns import CHARS_PER_TOKEN
from server.evidence.asking import QuoteAsker
from server.store import standalone, turns

if TYPE_CHECKING:
    from server.store.records import StoredTurn


class OnDemand(Acting):
    """The part of the service that is asked beside the turns."""

    async def _turn(self, turn_id: str) -> StoredTurn:
        """A turn whose evidence is looked at. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        with store_errors():
            turn = await self.core.database.read(lambda connection: turns.find(connection, key, self.seen))
        if turn is None:
            raise NotFound(f"There is no turn {turn_id[:80]!r}.", code="turn_not_found")
        return turn

    def _key(self, *parts: object) -> str:
        """Names what is made of these parts by the model of the settings."""
        llm = self.core.settings.llm
        text = json.dumps((*parts, llm.model, llm.remote_name))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    async def _kept(self, key: str) -> str | None:
        with store_errors():
            return await self.core.database.read(lambda connection: standalone.find(connection, key))

    async def _keep(self, key: str, collection: str, version: str, document_id: str, made: str) -> None:
        """Of a version that was replaced meanwhile nothing is kept: a document may have been erased with it."""
        core, owner = self.core, self.principal.id
        if (await in_thread(lambda: core.opened.get(collection))).version == version:
            with store_errors():
                await core.database.write(
                    lambda connection: standalone.keep(connection, key, collection, version, document_id, owner, made)
                )

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
