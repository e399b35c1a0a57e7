"""The base of the services: authorisation of their methods, and their errors.

Authorisation is whether the principal may act, and through which group; the decisions are `server.access`'s. A public
method of a service without `requires` fails a test.

ChatError                   base; `code` is a stable name, the message says what happened and what to do
├── InvalidRequest          the request cannot be answered as it stands (too long, contradictory, unknown format)
├── Forbidden               the role of whoever asks does not allow it
├── NotFound                no conversation, turn, collection, document or job of that id
├── TooLarge                an upload is larger than the settings allow
├── TooManyRequests         `retry_after` says in how many seconds to try again
│   ├── QueueFull           too many turns are waiting
│   └── LimitReached        whoever asks has used what one principal may use
├── Conflict                the thing exists already, or is busy with something else
└── Unavailable             a model or the disk is not usable now; trying again later may work
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar, Unpack

from sqlalchemy import Connection

from index.documents import Where
from index.errors import CollectionLocked, CollectionNotFound, DocumentNotFound, IndexingError, InvalidName
from server.access import NEEDS, Action, Circumstances, Ownership, Principal, account, allows, entry, group_of, note
from server.store import StoreError, StoreFull, schema, turns
from server.store.records import StoredTurn
from text.files import NAME_RULE, is_name

if TYPE_CHECKING:
    from index.collection import Collection
    from server.chat.loaded_models import CollectionSummary
    from server.chat.service import ServiceCore


class ChatError(Exception):
    """Base of what the service refuses; safe to show to a person."""

    code = "chat_error"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class InvalidRequest(ChatError):
    code = "invalid_request"


class Forbidden(ChatError):
    code = "forbidden"


class NotFound(ChatError):
    code = "not_found"


class TooLarge(ChatError):
    code = "too_large"


class TooManyRequests(ChatError):
    """Too much at once, or too soon; the same request will be answered later."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(f"{message} Try again in {retry_after} s.")
        self.retry_after = retry_after


class QueueFull(TooManyRequests):
    code = "queue_full"


class LimitReached(TooManyRequests):
    code = "rate_limit_exceeded"


class Conflict(ChatError):
    code = "conflict"


class Unavailable(ChatError):
    code = "unavailable"


T = TypeVar("T")

MAX_QUERY_CHARS = 400
MAX_ID_CHARS = 2000


_MEANINGS: Mapping[type[Exception], tuple[type[ChatError], str, str | None]] = {
    StoreFull: (Unavailable, "disk_full", None),
    StoreError: (Unavailable, "store_failed", None),
    CollectionNotFound: (NotFound, "collection_not_found", "collection"),
    DocumentNotFound: (NotFound, "document_not_found", "document_id"),
    InvalidName: (InvalidRequest, "invalid_collection_name", "collection"),
    CollectionLocked: (Conflict, "collection_busy", "collection"),
    IndexingError: (Unavailable, "index_failed", None),
}


@contextmanager
def translated() -> Iterator[None]:
    """Map errors of the store and of the index to errors of the service."""
    try:
        yield
    except tuple(_MEANINGS) as error:
        meaning, code, param = next(_MEANINGS[kind] for kind in _MEANINGS if isinstance(error, kind))
        raise meaning(str(error), code=code, param=param) from error


async def run_blocking(call: Callable[[], T]) -> T:
    """A blocking call on the index or the store, in a thread, its errors translated."""
    with translated():
        return await asyncio.to_thread(call)


def no_collection(name: str) -> NotFound:
    """The same words for a collection that is not there and for one that whoever acts may not see."""
    return NotFound(
        f"There is no collection {name[:80]!r}. Index documents into it first.",
        code="collection_not_found",
        param="collection",
    )


def found_or_missing(value: T | None, kind: str, key: str) -> T:
    """Return `value`. Raises NotFound for None, and for False of what would have been changed."""
    if value is None or value is False:
        raise NotFound(f"There is no {kind} {key[:80]!r}.", code=f"{kind.split()[0]}_not_found")
    return value


def clean(text: str, limit: int, param: str) -> str:
    """`text` as it can be stored: no NUL, no half characters. Raises InvalidRequest above `limit` characters."""
    if len(text) > limit:
        raise InvalidRequest(
            f"The {param} has {len(text):,} characters; {limit:,} are allowed. Shorten it.",
            code="text_too_long",
            param=param,
        )
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def checked_name(name: str, kind: Literal["collection", "group"] = "collection") -> str:
    """`name` if a collection, or a group, may be called so. Raises InvalidRequest."""
    if not is_name(name):
        raise InvalidRequest(
            f"This cannot be a {kind}'s name: use {NAME_RULE}.", code=f"invalid_{kind}_name", param=kind
        )
    return name


MAX_FILTER_KEYS = 20
MAX_FILTER_VALUES = 200


def checked_filter(where: Where | None) -> Where | None:
    """Return `where`. Raises InvalidRequest for too many keys or values."""
    if where is None:
        return None
    values = sum(len(value) if isinstance(value, list) else 1 for value in where.values())
    if len(where) > MAX_FILTER_KEYS or values > MAX_FILTER_VALUES:
        raise InvalidRequest(f"A filter may have {MAX_FILTER_KEYS} keys and {MAX_FILTER_VALUES} values.", param="where")
    return where


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
        granted = await self._read(schema.all_grants)
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
        return group_of(self.principal, await self._read(schema.groups_of, collection))

    async def _read(self, work: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the store and return its result. Raises Unavailable."""
        with translated():
            return await self.core.database.read(work, *args, **kwargs)

    async def _write(self, work: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `_read`, in a transaction that writes."""
        with translated():
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
