"""Prompts, versioned by their content and filled so that each part is known; and the question a cross-encoder reads.

Prompts are Markdown files, and each package keeps its own; the values that fill them, and how hostile text is escaped,
are decided where they are used. A cross-encoder that was trained on conversations reads the question with its context
in one line (`asking`): the same text in training and in serving. The length limits of the parts, in the model's own
tokens, are stored with the model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple, Self

_FIELD = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text, and a version that changes whenever the text does (12 hex digits of its SHA-256)."""

    name: str
    text: str
    version: str


@cache
def load_prompt(package: str, name: str) -> Prompt:
    """The prompt in `<name>.md` of a package such as `rewriter.prompts`, white space at both ends cut.

    Raises FileNotFoundError where the package has no such file.
    """
    text = files(package).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])


class PromptPart(NamedTuple):
    """A stretch of a text: a literal, or a value that the code names `expression`."""

    text: str
    expression: str = ""


class Interpolated(str):
    """A string of parts. Results of `str`'s own methods are plain strings again."""

    __slots__ = ("parts",)
    parts: tuple[PromptPart, ...]

    @classmethod
    def of(cls, parts: Iterable[PromptPart]) -> Self:
        """The parts joined; empty ones are left out."""
        nonempty = tuple(part for part in parts if part.text)
        joined = cls("".join(part.text for part in nonempty))
        joined.parts = nonempty
        return joined


def parts_of(text: str) -> tuple[PromptPart, ...]:
    """The parts of a text: of one that remembers none, itself as a literal."""
    return text.parts if isinstance(text, Interpolated) else (PromptPart(str(text)),)


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


BETWEEN = " | "


Cut = Callable[[str, int], tuple[str, int]]
"""A text's beginning of at most so many tokens, and how many those are."""


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """Context of a question: the words a rewriter would append, and the exchange before it (any may be empty)."""

    words: str = ""
    asked: str = ""
    answered: str = ""


@dataclass(frozen=True, slots=True)
class AskingLengths:
    """Most tokens of each part; all together are what the question's side of a pair may have."""

    question: int = 40
    words: int = 16
    asked: int = 20
    answered: int = 32

    @property
    def total(self) -> int:
        """Most tokens of the whole; what stands between the parts is one token each."""
        return self.question + self.words + self.asked + self.answered + 3


def asking(question: str, context: QuestionContext, lengths: AskingLengths, cut: Cut) -> str:
    """The question, the words it leaves out, the question before it and its answer; what is empty is left out."""
    texts = (question, context.words, context.asked, context.answered)
    mosts = (lengths.question, lengths.words, lengths.asked, lengths.answered)
    return BETWEEN.join(cut(text, most)[0] for text, most in zip(texts, mosts, strict=True) if text.strip() and most)
