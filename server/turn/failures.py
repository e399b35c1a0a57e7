"""How a turn ends badly, and the threads its blocking steps run in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from index.errors import CollectionNotFound, IndexingError

BLOCKING_SECONDS = 30.0
"""Longest search, and longest rerank, before the turn is given up."""

T = TypeVar("T")


class TurnFailed(Exception):
    """Ends a turn with an error event of this code; its text is for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def in_thread(call: Callable[[], T], step: str) -> T:
    """`call` in a thread, within `BLOCKING_SECONDS`. Raises TurnFailed, also for what the index says of a failure."""
    try:
        async with asyncio.timeout(BLOCKING_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError as error:
        raise TurnFailed(
            f"{step}_timeout",
            f"The {step} took longer than {BLOCKING_SECONDS:g} s. Try again when less is going on.",
        ) from error
    except CollectionNotFound as error:
        raise TurnFailed("collection_not_found", str(error)) from error
    except IndexingError as error:
        raise TurnFailed(f"{step}_failed", str(error)) from error
