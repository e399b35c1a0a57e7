"""Out of memory, told as one sentence with a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rewriter.errors import TrainingError


@contextmanager
def out_of_memory(doing: str, remedy: str) -> Iterator[None]:
    """Turns every form in which torch reports a lack of memory into a TrainingError."""
    import torch

    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise TrainingError(f"{doing} ran out of memory. {remedy}") from error
    except RuntimeError as error:
        # The CPU allocator raises a plain RuntimeError.
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise TrainingError(f"{doing} ran out of memory. {remedy}") from error
