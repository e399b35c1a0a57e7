"""Recipes: what is trained on what, in which order, as a TOML file.

A recipe names a base model, data, and stages that follow one another on the same weights (a curriculum). Paths of
data are relative to the folder given when it is run. `rewriter/recipes` holds those that come with the project.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from rewriter.load import RunKind
from rewriter.protocol import RecipeError

PACKAGE = "rewriter.recipes"
FAMILIES = {
    "causal": "rewriter.conditional.training:ConditionalFamily",
    "reranker": "rewriter.reranking.training:RerankerFamily",
    "t5": "rewriter.conditional.training:ConditionalFamily",
    "terms": "rewriter.terms.training:TermFamily",
}
"""Family → `module:class`; how a rewriter is served stands in `rewriter.load`, a cross-encoder in `index.rerank`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataPart(_Part):
    """One file in a mixture. `weight` is how often each example comes by in an epoch; fractions draw a sample.

    `hold_out` is the share of conversations kept from training; one half of them is dev, the other is test.
    """

    path: str
    weight: float = Field(1.0, gt=0)
    limit: int | None = Field(None, ge=1)
    hold_out: float = Field(0.0, ge=0, lt=1)


class Stage(_Part):
    """One pass of training. Give `steps` or `epochs`. `patience` evaluations without a better dev loss end it.

    `warmup` is a number of steps, or below 1 a share of them.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    data: tuple[DataPart, ...]
    steps: int | None = Field(None, ge=1)
    epochs: float | None = Field(None, gt=0)
    batch: int = Field(16, ge=1)
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    warmup: int | float = Field(50, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    evaluate_every: int = Field(200, ge=1)
    save_every: int = Field(200, ge=1)
    patience: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_end(self) -> Stage:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(f"stage {self.name} needs either `steps` or `epochs`")
        if self.patience and self.save_every % self.evaluate_every:
            raise ValueError(f"stage {self.name}: with `patience`, `save_every` must be a multiple of `evaluate_every`")
        return self


class ModelPart(_Part):
    """The model to train and its base; each family adds its own settings (`Family.settings`)."""

    takes_lora: ClassVar[bool] = False
    needs_lora: ClassVar[bool] = False
    family: str
    base: str


class LoraPart(_Part):
    """Low-rank adaptation: rank, scaling, dropout."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.05, ge=0, lt=1)


class Recipe(_Part):
    """Everything that decides a run's result, seed included."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    model: SerializeAsAny[ModelPart]
    stage: tuple[Stage, ...] = Field(min_length=1)
    dev: tuple[DataPart, ...] = ()
    dev_examples: int = Field(600, ge=1)
    lora: LoraPart | None = None
    seed: int = 13

    @field_validator("model", mode="before")
    @classmethod
    def _of_its_family(cls, model: Any) -> Any:
        if not isinstance(model, dict):
            return model
        model = {"family": "t5"} | model
        try:
            return load_family(str(model["family"])).settings.model_validate(model)
        except RecipeError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        names = [stage.name for stage in self.stage]
        if len(set(names)) < len(names):
            raise ValueError("two stages have the same name")
        if self.lora and not self.model.takes_lora:
            raise ValueError(f"the family {self.model.family} has no low-rank adaptation: leave `lora` out")
        if self.model.needs_lora and not self.lora:
            raise ValueError(f"the family {self.model.family} is low-rank adaptation alone: give it a [lora]")
        return self

    def on(self, path: str) -> Recipe:
        """This recipe trained on one file alone, a twentieth of it held out.

        Stages keep their settings, also those that were made for other data; what they read is that file.
        """
        data = (DataPart(path=path, hold_out=0.05),)
        stages = tuple(stage.model_copy(update={"data": data}) for stage in self.stage)
        return self.model_copy(update={"stage": stages, "dev": ()})


def load_family(name: str) -> Any:
    """The class of a family, a `rewriter.training.recipe.Family`; raises RecipeError."""
    if name not in FAMILIES:
        raise RecipeError(f"There is no family {name!r}; there are {', '.join(FAMILIES)}.")
    return resolve_name(FAMILIES[name])


def read_adapting(name_or_path: str, path: str, changes: dict[str, Any] | None = None) -> Recipe:
    """The recipe for adapting to the rows at `path`: `<name>-adapt` where one comes with the project, else `<name>`."""
    adapting = f"{name_or_path}-adapt"
    return read_recipe(adapting if adapting in recipes() else name_or_path, changes).on(path)


def read_recipe(name_or_path: str, changes: dict[str, Any] | None = None) -> Recipe:
    """The recipe of that name that comes with the project, or the TOML file at that path; `changes` go on top.

    Raises RecipeError, one line for each wrong value.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise RecipeError(f"The recipe {path} cannot be read ({error.strerror}).") from error
    else:
        file = resources.files(PACKAGE) / f"{name_or_path}.toml"
        if not file.is_file():
            raise RecipeError(
                f"There is no recipe {name_or_path!r}; there are {', '.join(recipes())}, or give a .toml."
            )
        text = file.read_text("utf-8")
    try:
        values = tomllib.loads(text)
        if "model" not in values and "data" in values:
            raise RecipeError(
                f"The recipe {path} is of the old form of the family terms: put its `data` under [[stage]] and what "
                "describes the model under [model], as docs/lab/rewriter-training.md shows."
            )
        return Recipe.model_validate(_merged(values, changes or {}))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"The recipe {name_or_path} is no TOML: {error}.") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'recipe'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise RecipeError(f"The recipe {name_or_path} cannot be used: {wrong}.") from error


def recipes() -> list[str]:
    """Names of the recipes that come with the project."""
    return sorted(
        file.name.removesuffix(".toml") for file in resources.files(PACKAGE).iterdir() if file.name.endswith(".toml")
    )


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


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
        """Return the sort key of an item, chosen so that a batch holds little padding."""

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch: what changes from one to the next depends on it and the recipe's seed alone."""


class Trainable(Protocol):
    """A model in training. `model` is a torch module that answers a batch with its `loss`."""

    model: Any

    def features(self, examples: Sequence[Any], *, train: bool) -> Features:
        """Encode examples for the model; training examples may be augmented."""

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
        """Return further entries of the description, such as a calibrated `gate`, and the scores of the export, both
        from held-out rows."""


def family(name: str) -> Family:
    """The family of that name; raises RecipeError."""
    return cast("Family", load_family(name)())
