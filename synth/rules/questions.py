"""Questions with holes: a text whose phrases can be named in full, pointed at, or left out.

The stand-alone form names every phrase; a contextual form is the same question with some of them as pronouns,
definite descriptions, or dropped together with their preposition. Where questions come from is told elsewhere
(`asking`, `templates`); when a form may be used is the dialog's decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import regex

from synth.rules.phrases import Phrase

Case: TypeAlias = Literal["subject", "object", "possessive"]
_SPACES = regex.compile(r"\s{2,}")


@dataclass(frozen=True, slots=True)
class Ref:
    """A place in a question where a phrase is named."""

    phrase: Phrase
    case: Case


@dataclass(frozen=True, slots=True)
class Optional:
    """A stretch that may be left out when its phrase is understood (" for a replacement card")."""

    parts: tuple[str | Ref, ...]


Part: TypeAlias = str | Ref | Optional


@dataclass(frozen=True, slots=True)
class Question:
    """A question in parts; `answer` is the place of the sentence that answers it in its document, or -1.

    `kind` is its first word's class ("yes_no", "what", "how", …). `action` is what the asking person would do
    ("report a change of address"), `inverted` the yes/no order of its clause without question mark, `rule` the name
    of the rule that made it, `frame` what it was made with, so that another phrase can be put in its place.
    """

    parts: tuple[Part, ...]
    kind: str
    rule: str
    answer: int = -1
    action: str = ""
    phrases: tuple[Phrase, ...] = field(default=())

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(phrase.key for phrase in self.phrases)


def question(parts: tuple[Part, ...], kind: str, rule: str, answer: int = -1, action: str = "") -> Question:
    """A question of these parts, with the phrases it names in their order."""
    return Question(parts, kind, rule, answer, action, tuple(ref.phrase for ref in refs(parts)))


def refs(parts: tuple[Part, ...]) -> Iterator[Ref]:
    """Every place where a phrase is named, in order."""
    for part in parts:
        if isinstance(part, Ref):
            yield part
        elif isinstance(part, Optional):
            yield from (inner for inner in part.parts if isinstance(inner, Ref))


def rendered(
    parts: tuple[Part, ...], forms: Mapping[str, str] | None = None, drop: frozenset[str] = frozenset()
) -> str:
    """The question as text.

    `forms` gives, by a phrase's key, the words to use for it instead of its own: as subject and object, with
    "possessive" forms ("its") derived. Optional stretches about a phrase in `drop` are left out.
    """
    forms = forms or {}
    out: list[str] = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Ref):
            out.append(_named(part, forms))
        elif not any(isinstance(inner, Ref) and inner.phrase.key in drop for inner in part.parts):
            out.extend(inner if isinstance(inner, str) else _named(inner, forms) for inner in part.parts)
    text = _SPACES.sub(" ", "".join(out)).strip()
    return text[:1].upper() + text[1:]


def _named(ref: Ref, forms: Mapping[str, str]) -> str:
    words = forms.get(ref.phrase.key)
    if words is None:
        text = ref.phrase.text
        return possessive(text) if ref.case == "possessive" else text
    if ref.case == "possessive":
        return {"it": "its", "they": "their", "that": "its", "he": "his", "she": "her"}.get(words, possessive(words))
    if ref.case == "object":
        return {"they": "them", "he": "him", "she": "her"}.get(words, words)
    return words


def possessive(text: str) -> str:
    """ "my school's", "students'"."""
    return f"{text}'" if text.endswith("s") else f"{text}'s"


def replaced(parts: tuple[Part, ...], key: str, other: Phrase) -> tuple[Part, ...]:
    """The same question about another phrase."""

    def swap(ref: Ref) -> Ref:
        return Ref(other, ref.case) if ref.phrase.key == key else ref

    return tuple(
        swap(part)
        if isinstance(part, Ref)
        else Optional(tuple(swap(inner) if isinstance(inner, Ref) else inner for inner in part.parts))
        if isinstance(part, Optional)
        else part
        for part in parts
    )
