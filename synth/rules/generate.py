"""Triples of (history, question, stand-alone question) from blocks of documents, seeded.

A block is a handful of documents drawn together; its rows depend on the seed, the block's number and its documents
alone, so that blocks can be made by any process in any order. Files and processes are `synth.rules.run`'s business.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rewriter.conversation import Turn
from rewriter.examples import normalised
from rewriter.words import stems
from synth.rules import style
from synth.rules.dialog import Dialog, Step
from synth.rules.material import Material, material_of
from synth.rules.moves import POINTING, STANDING, Move
from synth.rules.sources import SourceText

SOURCE = "rules"
"""What every row says of where it comes from."""
_TRIES = 6
_WORTH = 0.75  # a long document gives more rows than a short one, but not in proportion


class Proportions(BaseModel):
    """How conversations are mixed; shares lie between 0 and 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unchanged: float = Field(0.48, ge=0, le=1, description="Share of questions that stand alone.")
    opening: float = Field(0.08, ge=0, le=1, description="Share of rows without history.")
    without_answers: float = Field(
        0.12, ge=0, le=1, description="Share of conversations that keep the user's turns only."
    )
    casual: float = Field(0.5, ge=0, le=1, description="Share of pointing questions typed in small letters.")
    casual_standing: float = Field(0.12, ge=0, le=1, description="Share of stand-alone questions typed carelessly.")
    longest: int = Field(9, ge=2, le=50, description="User turns of the longest conversation.")
    history: int = Field(10, ge=2, le=100, description="Most turns of a row's history, newest kept.")


@dataclass(frozen=True, slots=True)
class Triple:
    """A row: `id` is `<block>-<dialog>#<turn>`, `rules` name how it was made, `document_id` from what."""

    id: str
    history: tuple[Turn, ...]
    question: str
    rewrite: str
    rules: tuple[str, ...]
    document_id: str

    @property
    def unchanged(self) -> bool:
        """Whether the question stands alone as it was typed."""
        return self.question == self.rewrite

    def row(self) -> dict[str, Any]:
        """The JSON row that `rewriter.examples.read_examples` reads, with its rules and document besides."""
        return {
            "id": self.id,
            "history": [{"role": turn.role, "text": turn.text} for turn in self.history],
            "question": self.question,
            "rewrite": self.rewrite,
            "source": SOURCE,
            "rules": list(self.rules),
            "document": self.document_id,
        }


def worth(length: int) -> float:
    """How many rows a document of so many characters should give, relative to others."""
    return float(min(length, 20_000) ** _WORTH)


def block_triples(
    texts: Sequence[SourceText], count: int, seed: int, name: str, proportions: Proportions
) -> Iterator[Triple]:
    """At most `count` rows about these documents, no two with the same question, rewrite and last turn.

    Fewer where the documents do not give more. `name` goes into ids and, with `seed`, decides every choice.
    """
    materials = [material_of(text.document_id, text.title, text.text) for text in texts]
    usable = [material for material in materials if material.usable]
    if not usable or count <= 0:
        return
    rng = random.Random(f"{seed}/{name}")
    weights = [worth(sum(len(sentence.text) for sentence in material.sentences)) for material in usable]
    seen: set[int] = set()
    made = unchanged = barren = number = 0
    while made < count and barren < 60:
        number += 1
        before = made
        material = rng.choices(usable, weights)[0]
        for triple in _conversation(material, usable, rng, f"{name}-{number}", proportions, unchanged, made):
            key = hash((triple.question, triple.rewrite, triple.history[-1].text if triple.history else ""))
            if key in seen:
                continue
            seen.add(key)
            made += 1
            unchanged += triple.unchanged
            yield triple
            if made >= count:
                return
        barren = barren + 1 if made == before else 0


def _conversation(
    material: Material,
    others: Sequence[Material],
    rng: random.Random,
    name: str,
    proportions: Proportions,
    unchanged: int,
    made: int,
) -> Iterator[Triple]:
    """One conversation, a row for each of its questions that can be told from what is seen of it."""
    dialog = Dialog(material, others, rng, gender=rng.choice(("she", "he")))
    answers = rng.random() >= proportions.without_answers
    length = min(rng.choice((2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9)), proportions.longest)
    for turn in range(length):
        share = unchanged / made if made else proportions.unchanged
        standing = not turn or rng.random() < proportions.unchanged + 3 * (proportions.unchanged - share)
        step = _next(dialog, STANDING) if standing else _next(dialog, POINTING) or _next(dialog, STANDING)
        if step is None:
            return
        alone = step.question == step.rewrite
        if alone:
            typed = style.standing(step.question, rng, proportions.casual_standing)
            rewrite = typed
        else:
            typed = style.typed(step.question, rng, proportions.casual)
            rewrite = step.rewrite
        history = tuple(said for said in dialog.turns if answers or said.role == "user")[-proportions.history :]
        told = set(stems(" ".join((*(said.text for said in history), typed))))
        # A first question seldom is a row: most of what is learnt from rows without history is to leave alone.
        shown = turn > 0 or rng.random() < proportions.opening * length
        if shown and (alone or (set(stems(rewrite)) - ADDED <= told and normalised(typed) != normalised(rewrite))):
            triple = Triple(f"{name}#{turn + 1}", history, typed, rewrite, step.rules, dialog.material.document_id)
            yield triple
            made += 1
            unchanged += triple.unchanged
        dialog.add(Step(typed, step.rewrite, step.rules, step.asked, step.answer, step.about, step.reply))


ADDED = frozenset(
    stems(
        "happen happens cost difference differ example examples explain details matter link advantage know tell "
        "take works work free possible easiest best way help deadline fee account permission safe allowed forget "
        "person online need read mean contact use used"
    )
)
"""Stems that a rewrite may add of its own: words of question templates that an ellipsis leaves out."""


def _next(dialog: Dialog, moves: tuple[tuple[Move, float], ...]) -> Step | None:
    choices, weights = zip(*moves, strict=True)
    for _ in range(_TRIES):
        step: Step | None = dialog.random.choices(choices, weights)[0](dialog)
        if step is not None and 1 <= len(step.question) <= 400 and len(step.rewrite) <= 300:
            return step
    return None
