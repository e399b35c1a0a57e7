"""Mixtures: which examples a stage sees, and which are kept from it.

Whether a conversation is held out depends on its id and the recipe's seed alone, so that all its turns stay on one
side, in every stage and every run.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rewriter.errors import ExampleError, RecipeError
from rewriter.load import sha256
from rewriter.training.families import TrainingExample, family
from rewriter.training.recipe import DataPart, Recipe

Side: TypeAlias = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """A file of a run, for its card."""

    path: str
    sha256: str
    examples: int


class Mixture:
    """The data of a recipe below one folder, as the recipe's family reads it.

    Raises ExampleError or RecipeError where a file is missing or spoilt.
    """

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe = recipe
        self._root = root
        self._read: dict[tuple[str, int | None], list[Any]] = {}
        self._hashes: dict[tuple[str, int | None], TrainingSource] = {}

    def train(self, stage: int) -> list[Any]:
        """The examples of one epoch of a stage, as often as their weights say; the order is the sampler's business."""
        chosen = list[Any]()
        for n, part in enumerate(self._recipe.stage[stage].data):
            examples = [example for example in self._part(part) if self.side(example, part.hold_out) == "train"]
            rng = random.Random(f"{self._recipe.seed}:{stage}:{n}")
            whole = int(part.weight)
            chosen += examples * whole
            chosen += rng.sample(examples, round((part.weight - whole) * len(examples)))
        if not chosen:
            raise RecipeError(f"Stage {self._recipe.stage[stage].name} has nothing to train on.")
        return chosen

    def held_out(self, side: Literal["dev", "test"]) -> list[Any]:
        """What no stage trains on, at most `dev_examples`, drawn alike in every run; files under `dev` are dev only."""
        found = list[Any]()
        for part in dict.fromkeys(part for stage in self._recipe.stage for part in stage.data if part.hold_out):
            found += [example for example in self._part(part) if self.side(example, part.hold_out) == side]
        if side == "dev":
            for part in self._recipe.dev:
                found += self._part(part)
        unique = list(dict.fromkeys(found))
        if len(unique) > self._recipe.dev_examples:
            unique = random.Random(f"{self._recipe.seed}:{side}").sample(unique, self._recipe.dev_examples)
        return unique

    def side(self, example: TrainingExample, hold_out: float) -> Side:
        """On which side the example's conversation stands."""
        digest = hashlib.sha256(f"{self._recipe.seed}:{example.source}:{example.dialog}".encode()).digest()
        if int.from_bytes(digest[:8]) / 2**64 >= hold_out:
            return "train"
        return "test" if digest[8] % 2 else "dev"

    def sources(self) -> list[TrainingSource]:
        """Every file that was read, with its hash."""
        return list(self._hashes.values())

    def texts(self) -> Iterator[str]:
        """Every text of the training side, for a vocabulary."""
        for stage in range(len(self._recipe.stage)):
            for example in self.train(stage):
                yield example.question
                yield example.rewrite
                yield from (message.text for message in example.history)

    def _part(self, part: DataPart) -> list[Any]:
        key = (part.path, part.limit)
        if key not in self._read:
            path = self._root / part.path
            if not path.is_file():
                raise ExampleError(f"There is no file {path}; recipes take their paths from the folder of --data.")
            self._read[key] = _first(family(self._recipe.model.family).read(path), part.limit, self._recipe.seed)
            self._hashes[key] = TrainingSource(part.path, sha256(path), len(self._read[key]))
        return self._read[key]


def _first(examples: Iterable[Any], limit: int | None, seed: int) -> list[Any]:
    found = list(examples)
    return found if limit is None or len(found) <= limit else random.Random(f"{seed}:limit").sample(found, limit)
