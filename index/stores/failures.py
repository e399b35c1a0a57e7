"""What goes wrong in a store's engine, as the project's errors, which say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from index.errors import CollectionCorrupt, StorageError


@dataclass(frozen=True, slots=True)
class EngineFailures:
    """Contexts in which an engine is read and written.

    `where` is where a version's vectors lie, `url` the address of the engine's server, if any. `raised` gives what the
    engine and the way to it raise; `answered` tells an error that a server told from one on the way to it; `uncopied`
    are raised where a version's files could not be copied to be opened.
    """

    engine: str
    where: str
    url: str
    raised: Callable[[], tuple[type[Exception], ...]]
    answered: Callable[[Exception], bool]
    uncopied: tuple[type[Exception], ...] = ()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises CollectionCorrupt, or StorageError where a server does not answer."""
        try:
            yield
        except self.uncopied as error:
            raise StorageError(
                f"the vectors in {self.where} could not be copied to be opened ({error}): look for room on the disk"
            ) from error
        except self.raised() as error:
            if self.url and not self.answered(error):
                raise StorageError(
                    f"the {self.engine} server at {self.url} does not answer ({error}): "
                    "start it, or correct `index.store_url`"
                ) from error
            raise CollectionCorrupt(f"the vectors in {self.where} cannot be read ({error}): index again") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raises StorageError."""
        try:
            yield
        except self.raised() as error:
            advice = f"see that the {self.engine} server runs" if self.url else "look for room on the disk"
            raise StorageError(
                f"writing vectors to {self.where} failed ({error}); the last good version still serves; "
                f"{advice} and index again"
            ) from error
