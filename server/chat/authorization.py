"""Authorisation of the service's methods: whether the principal may act, and through which group.

The decisions are `server.access`'s. A public method of the service without `acting` fails a test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, Unpack

from sqlalchemy import Connection

from server.access import NEEDS, Action, Ownership, Principal, allows, group_of
from server.audit_log import Circumstances, account, entry, note
from server.chat.error_mapping import (
    MAX_QUERY_CHARS,
    Forbidden,
    NotFound,
    checked_name,
    clean,
    found_or_missing,
    no_collection,
    run_blocking,
    store_errors,
)
from server.chat.loaded_models import CollectionSummary
from server.store import collection_rows, turns
from server.store.records import StoredTurn
from text.files import is_name

if TYPE_CHECKING:
    from index.collection import Collection
    from server.chat.service import ServiceCore

S = TypeVar("S", bound="ServiceBase")
P = ParamSpec("P")
R = TypeVar("R")

MAX_LISTED = 200
"""Rows of one list."""


class ServiceBase:
    """Base of the services: act for `principal`; `core` is for the services alone."""

    def __init__(self, core: ServiceCore, principal: Principal) -> None:
        self.core = core
        self.principal = principal

    def may(self, action: Action) -> bool:
        """Whether the role allows this, so that nobody is shown what would be refused."""
        return allows(self.principal, action)

    def demand(self, action: Action) -> None:
        """Raise Forbidden where the role of whoever acts does not allow this."""
        if not self.may(action):
            raise self.refusal(action)

    def refusal(self, action: Action, about: str = "", error: Forbidden | None = None) -> Forbidden:
        """The refusal of an action, with what it would take; the audit log notes it."""
        self.note(action, about, outcome="forbidden")
        role = NEEDS[action]
        if error is None and self.principal.has(role):
            return Forbidden("This is about the server as a whole, and needs an operator of every group.")
        words = f"This needs the role {role}; yours is {self.principal.role}. Ask an operator of this server."
        return error or Forbidden(words)

    def note(self, did: str, about: str = "", **more: Unpack[Circumstances]) -> None:
        """Write into the audit log, soon, what whoever acts has seen or tried."""
        note(self.core.database, self.principal, did, about, **more)

    async def account(self, did: str, about: str = "", **more: Unpack[Circumstances]) -> None:
        """Write into the audit log what whoever acts does: before it is answered, and for some acts before it is
        done. Raises Unavailable: what cannot be accounted for does not happen."""
        await self._write(account, entry(self.principal, did, about, **more))

    async def reached(self, collection: str) -> Ownership:
        """Return the owner of a new row for `collection`, which may not exist yet. Raises NotFound where it is granted
        to no group of whoever acts, and for what no collection can be called."""
        if not is_name(collection):
            raise no_collection(collection)
        group = await self._group(collection)
        if group is None:
            self.note("collection.reach", collection=collection, outcome="not_granted")
            raise no_collection(collection)
        return Ownership(self.principal.id, group)

    async def existing(self, collection: str) -> Ownership:
        """`reached`, and NotFound in the same words for a collection that is not there."""
        ownership = await self.reached(collection)
        opened = self.core.opened
        if not opened.is_open(collection) and not await run_blocking(lambda: opened.exists(collection)):
            raise no_collection(collection)
        return ownership

    async def listed(self) -> list[CollectionSummary]:
        """The collections that are granted to a group of whoever acts, by name."""
        collections = await run_blocking(self.core.opened.listing)
        granted = await self._read(collection_rows.all_grants)
        return [info for info in collections if group_of(self.principal, granted.get(info.name, ()))]

    async def default_collection(self) -> str:
        """The collection of the settings, or the first that whoever acts may see instead. Raises NotFound."""
        default = self.core.settings.collection
        if await self._group(default) is not None:
            return default
        for info in await self.listed():
            return info.name
        raise NotFound(
            "No collection is granted to you yet; ask an operator of this server.", code="collection_not_found"
        )

    def demand_choice(self, model: str) -> str:
        """Return `model`, which is empty or one of `llm.choices`. Raises NotFound for any other."""
        choices = self.core.settings.llm.choices
        if model and model not in choices:
            there = f"There are: {', '.join(choices)}." if choices else "The operator offers none."
            raise NotFound(
                f"There is no model {model[:80]!r} to choose. {there}", code="model_not_found", param="model"
            )
        return model

    async def _opened(self, collection: str) -> Collection:
        """A collection to be read. Raises NotFound, InvalidRequest."""
        name = checked_name(collection)
        await self.existing(name)
        return await run_blocking(lambda: self.core.opened.get(name))

    async def _turn(self, turn_id: str) -> StoredTurn:
        """A turn as it is kept. Raises NotFound."""
        key = clean(turn_id, MAX_QUERY_CHARS, "turn_id")
        return found_or_missing(await self._read(turns.find, key, self.principal), "turn", turn_id)

    async def _group(self, collection: str) -> str | None:
        return group_of(self.principal, await self._read(collection_rows.groups_of, collection))

    async def _read(self, work: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the store and return its result. Raises Unavailable."""
        with store_errors():
            return await self.core.database.read(work, *args, **kwargs)

    async def _write(self, work: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `_read`, in a transaction that writes."""
        with store_errors():
            return await self.core.database.write(work, *args, **kwargs)


def requires(action: Action) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Marks a method of the service with what it does: where the role does not allow that it raises Forbidden."""

    def mark(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            self.demand(action)
            return method(self, *args, **kwargs)

        checked.action = action  # type: ignore[attr-defined]
        return checked

    return mark
