"""Errors of the chat service.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from index.errors import CollectionLocked, CollectionNotFound, DocumentNotFound, IndexingError, InvalidName
from server.store import StoreError, StoreFull
from text.files import NAME_RULE, is_name


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
    """The request cannot be answered as it stands."""

    code = "invalid_request"


class Forbidden(ChatError):
    """The role of whoever asks does not allow it."""

    code = "forbidden"


class NotFound(ChatError):
    """No such conversation, turn, collection, document or job."""

    code = "not_found"


class TooLarge(ChatError):
    """An upload is larger than the settings allow."""

    code = "too_large"


class TooManyRequests(ChatError):
    """Too much at once, or too soon; the same request will be answered later."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(f"{message} Try again in {retry_after} s.")
        self.retry_after = retry_after


class QueueFull(TooManyRequests):
    """Too many turns are waiting already."""

    code = "queue_full"


class LimitReached(TooManyRequests):
    """Raised if the principal reached a limit; the message names it."""

    code = "rate_limit_exceeded"


class Conflict(ChatError):
    """The thing exists already, or is busy with something else."""

    code = "conflict"


class Unavailable(ChatError):
    """A model or the disk is not usable now."""

    code = "unavailable"


T = TypeVar("T")

MAX_QUERY_CHARS = 400
MAX_ID_CHARS = 2000


@contextmanager
def store_errors() -> Iterator[None]:
    """Map errors of the store to errors of the service."""
    try:
        yield
    except StoreFull as error:
        raise Unavailable(str(error), code="disk_full") from error
    except StoreError as error:
        raise Unavailable(str(error), code="store_failed") from error


@contextmanager
def index_errors() -> Iterator[None]:
    """Map errors of the index to errors of the service."""
    try:
        yield
    except CollectionNotFound as error:
        raise NotFound(str(error), code="collection_not_found", param="collection") from error
    except DocumentNotFound as error:
        raise NotFound(str(error), code="document_not_found", param="document_id") from error
    except InvalidName as error:
        raise InvalidRequest(str(error), code="invalid_collection_name", param="collection") from error
    except CollectionLocked as error:
        raise Conflict(str(error), code="collection_busy", param="collection") from error
    except IndexingError as error:
        raise Unavailable(str(error), code="index_failed") from error


async def run_blocking(call: Callable[[], T]) -> T:
    """A blocking call on the index, in a thread, its errors translated."""
    with index_errors():
        return await asyncio.to_thread(call)


def no_collection(name: str) -> NotFound:
    """The same words for a collection that is not there and for one that whoever acts may not see."""
    return NotFound(
        f"There is no collection {name[:80]!r}. Index documents into it first.",
        code="collection_not_found",
        param="collection",
    )


def found_or_missing(value: T | None, kind: str, key: str) -> T:
    """Return `value`, or raise `NotFound`. Raises NotFound for None, and for False of what would have been changed."""
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


def checked_name(name: str) -> str:
    """`name` if a collection may be called so. Raises InvalidRequest."""
    if not is_name(name):
        raise InvalidRequest(
            f"This cannot be a collection's name: use {NAME_RULE}.",
            code="invalid_collection_name",
            param="collection",
        )
    return name


def checked_group(group: str) -> str:
    """`group` if one may be called so. Raises InvalidRequest."""
    if not is_name(group):
        raise InvalidRequest(f"This cannot be a group's name: use {NAME_RULE}.", code="invalid_group", param="group")
    return group


def foreign_group(group: str) -> Forbidden:
    """The refusal to do something for a group of others."""
    return Forbidden(f"You are not in the group {group[:80]!r}.")
