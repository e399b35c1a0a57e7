"""Parallel work of an indexing run: reading files and embedding passages.

Without any, the run's own process does it. A plugin's workers (entry points `anaphora.workers`) get the functions that
one process has and the same batches, so that passages, vectors and errors are the same. The run's process decides and
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

R = TypeVar("R")


class Workers(Protocol):
    """Processes that share work; function, items and results are pickled."""

    def map(self, work: Callable[[T], R], items: Sequence[T], *, gpu: bool = False) -> Iterator[R]:
        """Apply `work` to each item and yield the results in order, some computed ahead; `gpu` where one is of use.

        Raises IndexingError, or what `work` raises.
        """
