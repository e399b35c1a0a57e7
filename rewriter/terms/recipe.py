"""Recipes: everything that decides what a training run of the term rewriter comes to, in one TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rewriter.errors import RecipeError

DEFAULT = Path(str(files("rewriter.terms") / "default.toml"))
"""The recipe of the packaged rewriter."""
ADAPT = Path(str(files("rewriter.terms") / "adapt.toml"))
"""The recipe of `anaphora adapt`, which goes on from the packaged rewriter."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a run. Paths of `data` are relative to the data folder that a run is given.

    `held_out` is the share of dialogs kept for the gate's calibration and never trained on; `longer_answers`
    the share of answers that get further sentences of their dialog, since people's systems talk longer than
    the dialogs do. `dropout` stands before the heads only. Learning rates fall to zero over `epochs`;
    `positive` is the weight of words to be appended
    over those that are not, `gate` that of the second head's loss.
    """

    base: str = "sentence-transformers/all-MiniLM-L6-v2"
    start: str = ""
    """A finished term rewriter to go on from, made from the same encoder: its folder, or `packaged`."""
    data: tuple[str, ...] = ()
    frozen: int = 0
    """Lower layers that stay as they are, with all embeddings; 0 trains everything but the words' vectors."""
    epochs: float = 3
    batch: int = 16
    rate: float = 1e-4
    head_rate: float = 1e-3
    warm_up: float = 0.06
    weight_decay: float = 0.01
    dropout: float = 0.1
    positive: float = 3.0
    gate: float = 0.5
    held_out: float = 0.05
    longer_answers: float = 0.25
    shifted: float = 0.15
    """So many questions more, of all there are, stand alone after the conversation of another dialog."""
    seed: int = 1
    threshold: float = 0.4
    """A word is appended from this probability on."""
    gate_threshold: float = 0.5
    """From this probability on, a question counts as one that needs its history."""

    def __post_init__(self) -> None:
        if not self.data:
            raise RecipeError("the recipe names no data: give `data = [...]`, paths below the data folder")
        if self.batch < 1 or self.epochs <= 0:
            raise RecipeError(f"the recipe's epochs ({self.epochs:g}) and batch ({self.batch}) must be above 0")
        for name in ("held_out", "longer_answers", "shifted", "warm_up", "dropout", "threshold", "gate_threshold"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(f"the recipe's {name} must be a share between 0 and 1, not {getattr(self, name)}")


def read_recipe(path: Path = DEFAULT) -> Recipe:
    """The recipe in a file; raises RecipeError."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RecipeError(f"the recipe {path} cannot be read: {error}") from error
    known = {item.name for item in dataclasses.fields(Recipe)}
    if strange := sorted(set(given) - known):
        raise RecipeError(f"the recipe {path} has unknown settings: {', '.join(strange)}")
    given["data"] = tuple(given.get("data", ()))
    try:
        return Recipe(**given)
    except TypeError as error:
        raise RecipeError(f"the recipe {path} makes no sense: {error}") from error
