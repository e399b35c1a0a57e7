"""What the store and the index raise, in the words of the service, and what is handed in as they can take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from index.errors import CollectionLocked, CollectionNotFound, DocumentNotFound, IndexingError, InvalidName
from server.chat.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.store import StoreError, StoreFull

T = TypeVar("T")

MAX_QUERY_CHARS = 400
MAX_ID_CHARS = 2000


@contextmanager
def store_errors() -> Iterator[None]:
    """What the store raises, in the words of the service."""
    try:
        yield
    except StoreFull as error:
        raise Unavailable(str(error), code="disk_full") from error
    except StoreError as error:
        raise Unavailable(str(error), code="store_failed") from error


@contextmanager
def index_errors() -> Iterator[None]:
    """What the index raises, in the words of the service."""
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


async def in_thread(call: Callable[[], T]) -> T:
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
    """What was found. Raises NotFound for None, and for False of what would have been changed."""
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
