"""How a turn answers: the settings of `answer`. Everybody takes them from `server.settings`."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from server.settings.group import SettingsGroup

WAYS = ("auto", "plain", "decompose")
"""`auto` takes compound questions apart, `decompose` whatever has parts, `plain` nothing."""
STEPS = ("baseline", "perplexity", "rank", "prune", "demonstrations", "vote")
"""Recipes that can be joined by `+`; `server.recipes.registry` holds them."""


_STEP = rf"(?:{'|'.join(one for one in STEPS if one != 'vote')})"
PATTERN = rf"^(?:{'|'.join(WAYS)}|vote|{_STEP}(?:\+{_STEP})*(?:\+vote)?)$"


def checked_recipe(name: str) -> str:
    """The name of a way of answering. Raises ValueError for one that there is not."""
    if not re.fullmatch(PATTERN, name):
        raise ValueError(
            f"there is no recipe {name[:80]!r}: it is one of {', '.join(WAYS)}, or some of {', '.join(STEPS)} joined "
            "by +, a vote last"
        )
    return name


RecipeName: TypeAlias = Annotated[
    str, AfterValidator(checked_recipe), WithJsonSchema({"type": "string", "pattern": PATTERN})
]


class AnswerSettings(SettingsGroup):
    """How a turn gets from passages to an answer."""

    recipe: RecipeName = Field(
        "auto",
        description="`auto` answers compound and comparing questions part by part where no passage covers them; "
        "`plain` never, `decompose` always. Slower ones, for a language model: `baseline`, `perplexity` (vLLM and "
        "models that run here), `rank`, `prune`, `demonstrations`, `vote`, also several joined by `+`.",
    )
    perplexity: float = Field(
        0.0,
        ge=0,
        description="Perplexity of “not mentioned” from which `perplexity` takes passages, as `anaphora eval recipes` "
        "fits it for a model; 0 takes the best one.",
    )
    demonstrations: str = Field(
        "",
        description="File of examples for `demonstrations`: JSON lines of `document`, `question`, `excerpt`, `answer`.",
    )
    shots: int = Field(3, ge=1, le=20, description="Examples that are shown.")
