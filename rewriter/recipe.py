"""Recipes: what is trained on what, as a TOML file, and the families of models that a recipe can name.

A recipe names a base model and the data of its training. Paths of data are relative to the folder given when it is run.
`rewriter/recipes` holds those that come with the project.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from rewriter.load import REWRITERS, RunKind
from rewriter.protocol import RecipeError

RECIPES = resources.files("rewriter") / "recipes"
DATA = resources.files("rewriter") / "data"
PACKAGED = "packaged:"
"""Begins the path of a data file that comes with the project."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataPart(_Part):
    """One file in a mixture. `weight` is how often each example comes by in an epoch; fractions draw a sample.

    `path` is relative to the folder of the data; `packaged:NAME` is of `rewriter/data`. `hold_out` is the share of
    conversations kept from training; one half of them is dev, the other is test.
    """

    path: str
    weight: float = Field(1.0, gt=0)
    hold_out: float = Field(0.0, ge=0, lt=1)

    def file(self, root: Path) -> Path:
        """Return where the file lies, with the data in the folder `root`."""
        packaged = self.path.removeprefix(PACKAGED)
        return root / self.path if packaged == self.path else Path(str(DATA / packaged))


class Stage(_Part):
    """The training. Give `steps` or `epochs`. `patience` evaluations without a better dev loss end it.

    `warmup` is a number of steps, or below 1 a share of them.
    """

    data: tuple[DataPart, ...]
    steps: int | None = Field(None, ge=1)
    epochs: float | None = Field(None, gt=0)
    batch: int = Field(16, ge=1)
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    warmup: int | float = Field(50, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    evaluate_every: int = Field(200, ge=1)
    save_every: int = Field(200, ge=1)
    patience: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_end(self) -> Stage:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either `steps` or `epochs`")
        if self.patience and self.save_every % self.evaluate_every:
            raise ValueError("with `patience`, `save_every` must be a multiple of `evaluate_every`")
        return self


class ModelPart(_Part):
    """The model to train and its base: a hub id, a registered name, or a folder. Each family adds its own settings."""

    kind: ClassVar[RunKind] = REWRITERS
    """Where runs of the family lie."""
    takes_lora: ClassVar[bool] = False
    family: str
    base: str


class ConditionalModelPart(ModelPart):
    """An encoder-decoder (`t5`), or a decoder alone (`causal`).

    With `words` the packaged term rewriter decides, and the model reads the words it found as a hint. `lengths` are in
    tokens (`rewriter.conditional.form.Lengths`).
    """

    takes_lora: ClassVar[bool] = True
    family: Literal["t5", "causal"] = "t5"
    words: bool = False
    lengths: dict[Literal["source", "target", "question", "user", "assistant", "turns", "hint"], int] = Field({})

    @property
    def seq2seq(self) -> bool:
        """Whether the base has an encoder."""
        return self.family == "t5"


class TermModelPart(ModelPart):
    """A BERT-like encoder to train, and how.

    `longer_answers` is the share of answers that get further sentences of their dialog, since people's systems talk
    longer than the dialogs do. `dropout` stands before the heads only. `positive` is the weight of words to be appended
    over those that are not, `gate_weight` that of the second head's loss.
    """

    family: Literal["terms"]
    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    start: str = ""
    """A finished term rewriter to go on from, made from the same encoder: its folder, or `packaged`."""
    frozen: int = Field(0, ge=0)
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    head_learning_rate: float = Field(1e-3, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    positive: float = Field(3.0, gt=0)
    gate_weight: float = Field(0.5, ge=0)
    longer_answers: float = Field(0.25, ge=0, lt=1)
    shifted: float = Field(0.15, ge=0, lt=1)
    """So many questions more, of all there are, stand alone after the conversation of another dialog."""
    moved: float = Field(0.0, ge=0)
    """So many questions more, of those that leave their subject, follow another dialog about the same source."""
    names: dict[str, str] = Field({})
    """Patterns of the names that people give to a source: moved questions say *it* instead."""
    threshold: float = Field(0.4, gt=0, lt=1)
    """A word is appended from this probability on."""
    gate_threshold: float = Field(0.5, gt=0, lt=1)
    """From this probability on, a question counts as one that needs its history."""


class LoraPart(_Part):
    """Low-rank adaptation: rank, scaling, dropout."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    dropout: float = Field(0.05, ge=0, lt=1)


FAMILIES: dict[str, tuple[type[ModelPart], str]] = {
    "causal": (ConditionalModelPart, "rewriter.conditional_training:ConditionalFamily"),
    "t5": (ConditionalModelPart, "rewriter.conditional_training:ConditionalFamily"),
    "terms": (TermModelPart, "rewriter.terms_training:TermFamily"),
}
"""Family → its settings in a recipe, and `module:class` of its `rewriter.families.Family`, which needs torch."""


class Recipe(_Part):
    """Everything that decides a run's result, seed included."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    model: SerializeAsAny[ModelPart]
    stage: Stage
    dev_examples: int = Field(600, ge=1)
    lora: LoraPart | None = None
    seed: int = 13

    @field_validator("model", mode="before")
    @classmethod
    def _of_its_family(cls, model: Any) -> Any:
        if not isinstance(model, dict):
            return model
        name = str(model.get("family", "t5"))
        if name not in FAMILIES:
            raise ValueError(f"There is no family {name!r}; there are {', '.join(FAMILIES)}.")
        return FAMILIES[name][0].model_validate(model)

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.lora and not self.model.takes_lora:
            raise ValueError(f"the family {self.model.family} has no low-rank adaptation: leave `lora` out")
        return self

    def on(self, path: str) -> Recipe:
        """This recipe trained on one file alone, a twentieth of it held out."""
        stage = self.stage.model_copy(update={"data": (DataPart(path=path, hold_out=0.05),)})
        return self.model_copy(update={"stage": stage})


def read_adapting(name_or_path: str, path: str) -> Recipe:
    """The recipe for adapting to the rows at `path`: `<name>-adapt` where one comes with the project, else `<name>`."""
    adapting = f"{name_or_path}-adapt"
    return read_recipe(adapting if adapting in recipes() else name_or_path).on(path)


def read_recipe(name_or_path: str, changes: dict[str, Any] | None = None) -> Recipe:
    """The recipe of that name that comes with the project, or the TOML file at that path; `changes` go on top.

    Raises RecipeError, one line for each wrong value.
    """
    path = Path(name_or_path)
    file = path if path.suffix == ".toml" else RECIPES / f"{name_or_path}.toml"
    if file is not path and not file.is_file():
        raise RecipeError(f"There is no recipe {name_or_path!r}; there are {', '.join(recipes())}, or give a .toml.")
    try:
        return Recipe.model_validate(_merged(tomllib.loads(file.read_text("utf-8")), changes or {}))
    except OSError as error:
        raise RecipeError(f"The recipe {path} cannot be read ({error.strerror}).") from error
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
    return sorted(file.name.removesuffix(".toml") for file in RECIPES.iterdir() if file.name.endswith(".toml"))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
