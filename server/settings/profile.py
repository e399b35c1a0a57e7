"""The retrieval profile: every number that decides what a turn finds, in one file.

`profile.toml` beside this module is the packaged profile; `anaphora eval calibrate` writes another one, and
`retrieval.profile` names it. `docs/lab/retrieval.md` shows how the numbers were chosen.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PACKAGED = "packaged"
"""The name of the profile that comes with Anaphora."""


class VariantWeights(BaseModel):
    """Weight of one query variant in each of the two rankings; 0 leaves that ranking out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lexical: float = Field(ge=0)
    dense: float = Field(ge=0)


class VariantTable(BaseModel):
    """Weights of all query variants; `profile.toml` says what each one is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    typed: VariantWeights
    rewritten: VariantWeights
    expanded: VariantWeights
    exchange: VariantWeights
    opening: VariantWeights
    conversation: VariantWeights


class RetrievalProfile(BaseModel):
    """One way to search; `profile.toml` says what each number is. `file` names where it was read, for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(PACKAGED, exclude=True)
    depth: int = Field(ge=1, le=1000)
    rrf_k: int = Field(ge=1)
    clarity: float = Field(ge=0)
    document_prior: float = Field(ge=0)
    document_prior_exponent: float = Field(ge=-10, le=10)
    page: float = Field(ge=0)
    page_exponent: float = Field(ge=-10, le=10)
    rerank_top: int = Field(ge=0, le=200)
    rerank_weight: float = Field(gt=0, le=100)
    rerank_seconds: float = Field(gt=0)
    answerable: float = Field(ge=0, le=1)
    ask_back: float = Field(ge=0, le=1)
    rewrite_threshold: float | None = Field(None, ge=0, le=1)
    rewrite_seconds: float = Field(gt=0)
    sentence_seconds: float = Field(ge=0)
    history_messages: int = Field(ge=0)
    variants: VariantTable

    def __str__(self) -> str:
        return self.file

    def weighed(self, weights: Mapping[str, float]) -> RetrievalProfile:
        """Return the profile with other weights, named like `typed.lexical`. Raises ValueError for others."""
        variants = self.variants.model_dump()
        for name, weight in weights.items():
            variant, _, ranking = name.partition(".")
            if ranking not in variants.get(variant, ()):
                raise ValueError(f"there is no weight {name[:80]!r}; one is called typed.lexical")
            variants[variant][ranking] = weight
        return self.model_copy(update={"variants": VariantTable.model_validate(variants)})

    def toml(self) -> str:
        """Return the profile as the text of a file."""
        values = self.model_dump(exclude_none=True)
        variants = values.pop("variants")
        lines = [f"{name} = {value:g}" for name, value in values.items()]
        for name, weights in variants.items():
            lines += ["", f"[variants.{name}]", *(f"{ranking} = {weight:g}" for ranking, weight in weights.items())]
        return "\n".join(lines) + "\n"


@cache
def packaged_profile() -> RetrievalProfile:
    """Return the profile that comes with Anaphora."""
    return RetrievalProfile.model_validate(_packaged())


def read_profile(source: object) -> object:
    """Read the profile that `retrieval.profile` names: a file, or `packaged`. A table is a profile itself.

    Keys that are left out have their packaged values. Raises ValueError, which names the file and the key.
    """
    if isinstance(source, RetrievalProfile):
        return source
    if isinstance(source, Mapping):
        return RetrievalProfile.model_validate(_merged(_packaged(), source) | {"file": "a table of the settings"})
    name = str(source)
    if name in ("", PACKAGED):
        return packaged_profile()
    path = Path(name).expanduser()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"the retrieval profile {path} cannot be read as TOML in UTF-8: {error}") from error
    try:
        return RetrievalProfile.model_validate(_merged(_packaged(), table) | {"file": name})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = "there is no such key" if first["type"] == "extra_forbidden" else first["msg"]
        raise ValueError(f"{key} in the retrieval profile {path}: {problem}") from error


def _packaged() -> dict[str, Any]:
    return tomllib.loads(files("server.settings").joinpath("profile.toml").read_text("utf-8"))


def _merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, change in changes.items():
        inner = values.get(name)
        merged[name] = _merged(inner, change) if isinstance(change, dict) and isinstance(inner, dict) else change
    return merged
