"""Texts that remember what was put into them: a prompt, and which of its stretches came from where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Self

import regex

_FIELD = regex.compile(r"\{\{(\w+)\}\}")


class PromptPart(NamedTuple):
    """A stretch of a text: a literal, or a value that the code names `expression`."""

    text: str
    expression: str = ""


class Interpolated(str):
    """A string of parts. What is made of it by `str`'s own methods is a plain string again."""

    __slots__ = ("parts",)
    parts: tuple[PromptPart, ...]

    @classmethod
    def of(cls, parts: Iterable[PromptPart]) -> Self:
        """The parts joined; empty ones are left out."""
        kept = tuple(part for part in parts if part.text)
        made = cls("".join(part.text for part in kept))
        made.parts = kept
        return made


def parts_of(text: str, expression: str = "") -> tuple[PromptPart, ...]:
    """The parts of a text: of one that remembers none, itself as the value of `expression`, or as a literal."""
    return text.parts if isinstance(text, Interpolated) else (PromptPart(str(text), expression),)


def fill(template: str, values: Mapping[str, str], missing: Callable[[str], str] | None = None) -> Interpolated:
    """The template with each `{{name}}` replaced by its value, in one pass: what is filled in is never filled again.

    The values within a value are named after it: `[1].text` within `passages` is `passages[1].text`. A name without a
    value becomes what `missing` says of it; without that it raises KeyError.
    """
    parts, end = list[PromptPart](), 0
    for match in _FIELD.finditer(template):
        name = match[1]
        value = values[name] if missing is None or name in values else missing(name)
        parts.append(PromptPart(template[end : match.start()]))
        if isinstance(value, Interpolated):
            parts += (PromptPart(text, inner and name + inner) for text, inner in value.parts)
        else:
            parts.append(PromptPart(value, name))
        end = match.end()
    return Interpolated.of((*parts, PromptPart(template[end:])))
