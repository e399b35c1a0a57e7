"""What a family brings to be trained, of rewriters, cross-encoders or readers; recipes, data, runs, checkpoints and
cards are the same for all.

A new family is a class with the methods of `Family` and its name in `rewriter.training.recipe`. None of it may import
torch before it is asked to open a model, since recipes are read to be listed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from rewriter.load import RunKind
from rewriter.training.recipe import ModelPart, Recipe, Stage, load_family

Texts: TypeAlias = Callable[[], Iterable[str]]
"""Gives every text that is trained on, for a vocabulary."""


class TrainingExample(Protocol):
    """One question that is learnt from, as its family reads it; hashable, and equal where it says the same."""

    @property
    def source(self) -> str:
        """Where it comes from."""

    @property
    def dialog(self) -> str:
        """Its conversation: all of one stand on one side."""


class Features(Protocol):
    """Examples as a model reads them, as many in every epoch."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> Any: ...

    def length(self, i: int) -> int:
        """What an item is sorted by, so that a batch holds little padding."""

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch: what changes from one to the next depends on it and the recipe's seed alone."""


class Trainable(Protocol):
    """A model in training. `model` is a torch module that answers a batch with its `loss`."""

    model: Any

    def features(self, examples: Sequence[Any], *, train: bool) -> Features:
        """What the model reads of examples; augmented, where the family does so, when they are trained on."""

    def collate(self, items: Sequence[Any]) -> dict[str, Any]:
        """Items as one batch of tensors."""

    def groups(self, stage: Stage) -> list[dict[str, Any]] | None:
        """Parameters with rates of their own, as torch's optimisers take them; None gives all the stage's."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the trained weights, and what `Family.export` needs; what the description is to say of the family."""


class Family(Protocol):
    """A family. `about` says in one sentence what it does, `settings` reads a recipe's `[model]`, `kind` says where its
    runs lie."""

    settings: type[ModelPart]
    about: str
    kind: RunKind

    def read(self, path: Path) -> Iterable[TrainingExample]:
        """The examples of a data file; raises ExampleError."""

    def open(self, recipe: Recipe, texts: Texts, folder: Path, callback: Callable[[str], None]) -> Trainable:
        """The model that a run begins with, the same whenever it is asked for. Writes `tokenizer.json` into `folder`.

        Raises RecipeError, TrainingError.
        """

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        """Make of saved weights what is served: what it changes in the description, and the files serving needs.

        Raises TrainingError.
        """

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[Any],
        test: Sequence[Any],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """What else the description says, such as a calibrated `gate`, and the scores of what was exported, both from
        what was held out."""


def family(name: str) -> Family:
    """The family of that name; raises RecipeError."""
    return cast("Family", load_family(name)())
