"""Families of models that `rewriter.training` trains: the steps that each has its own way of, and what they share."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rewriter.protocol import RecipeError, TrainingError
from rewriter.recipe import FAMILIES, Recipe

if TYPE_CHECKING:
    from torch import Tensor

SORTED_BATCHES = 50
"""So many batches are sorted by length at a time: little padding, and still a random order."""


class Features:
    """Items of an epoch as a model reads them, as many in each.

    `make` gives them for an epoch; `length` is the sort key of one, chosen so that a batch holds little padding; `read`
    is what a batch gets of one.
    """

    def __init__(
        self,
        make: Callable[[int], Sequence[Any]],
        length: Callable[[Any], int],
        read: Callable[[Any], Any] = lambda item: item,
    ) -> None:
        self._make, self._length, self._read = make, length, read
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self._read(self.items[i])

    def length(self, i: int) -> int:
        return self._length(self.items[i])

    def set_epoch(self, epoch: int) -> None:
        """Make the epoch's items, the same ones whenever they are asked for."""
        self.items = self._make(epoch)


class LengthSampler:
    """Indices of one epoch: shuffled, then batched with others of their length, then the batches shuffled.

    The order depends on `seed` and the epoch alone, so a run that goes on finds its place again.
    """

    def __init__(self, features: Features, batch: int, seed: int) -> None:
        self._features = features
        self._batch = batch
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the data loader at the start of each epoch."""
        self._epoch = epoch
        self._features.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._features)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self._seed}:{self._epoch}")
        order = list(range(len(self._features)))
        rng.shuffle(order)
        window = self._batch * SORTED_BATCHES
        batches = list[list[int]]()
        for start in range(0, len(order), window):
            part = sorted(order[start : start + window], key=self._features.length)
            batches += [part[i : i + self._batch] for i in range(0, len(part), self._batch)]
        # A short batch in the middle would shift all that follow it.
        whole = [batch for batch in batches if len(batch) == self._batch]
        rest = [batch for batch in batches if len(batch) < self._batch]
        rng.shuffle(whole)
        for batch in whole + rest:
            yield from batch


class Family(ABC):
    """A family of models that are trained alike. `about` says in one sentence what they do; `weights` are what `export`
    reads in a run's folder.

    `open` makes the `model`, a torch module that answers a batch with its `loss`; `features` to `save` are about that
    one. The others need none.
    """

    about: ClassVar[str]
    weights: ClassVar[tuple[str, ...]]
    model: Any

    @abstractmethod
    def read(self, path: Path) -> Iterable[Any]:
        """The examples of a data file, hashable, with `source` and `dialog`; raises ExampleError."""

    @abstractmethod
    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> None:
        """Make the model that a run begins with, the same whenever it is asked for. Writes `tokenizer.json`.

        Raises RecipeError, TrainingError.
        """

    @abstractmethod
    def features(self, examples: Sequence[Any], *, train: bool) -> Features:
        """Encode examples for the model; training examples may be augmented."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> dict[str, Any]:
        """Items as one batch of tensors."""

    def groups(self) -> list[dict[str, Any]] | None:
        """Parameters with rates of their own, as torch's optimisers take them; None gives all the recipe's."""
        return None

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the trained weights, and what `export` needs; what the description is to say of the family."""

    @abstractmethod
    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Make of saved weights what is served: what it changes in the description, and the files serving needs.

        Raises TrainingError.
        """

    @abstractmethod
    def judge(
        self, recipe: Recipe, folder: Path, description: dict[str, Any], dev: Sequence[Any], test: Sequence[Any]
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Return further entries of the description, such as a calibrated `gate`, and the scores of the export, both
        from held-out rows."""


def family(name: str) -> Family:
    """The family of that name, which a recipe or a run's description gives; raises RecipeError."""
    if name not in FAMILIES:
        raise RecipeError(f"There is no family {name!r} to train; there are {', '.join(FAMILIES)}.")
    return cast("Family", resolve_name(FAMILIES[name][1])())


def padded(rows: Iterable[Sequence[float]], value: int = 0, kind: str = "int64") -> Tensor:
    """Rows as one tensor `(rows, longest)`, filled up on the right with `value`."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    dtype = getattr(torch, kind)
    return pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True, padding_value=value)


@contextmanager
def out_of_memory(doing: str, remedy: str) -> Iterator[None]:
    """Turns every form in which torch reports a lack of memory into a TrainingError."""
    import torch

    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        # The CPU allocator raises a plain RuntimeError.
        plain = not isinstance(error, MemoryError | torch.OutOfMemoryError)
        if plain and "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise TrainingError(f"{doing} ran out of memory. {remedy}") from error
