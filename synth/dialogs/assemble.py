"""From the answers of the three prompts to a dialog: pairs kept or removed, wordings kept or given up.

As in the paper, a removed pair takes its follow-up's support away: the question after it is asked in its stand-alone
form. A wording is judged against what is really said before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from synth.dialogs.checks import SeenQuestions, form_reason, leaks, pair_reason
from synth.dialogs.lists import PropositionList
from synth.dialogs.rows import Dialog, Turn
from synth.dialogs.steps import STEPS, Draft, Grounding, Pair
from synth.prompts import chat_prompt
from synth.propositions.extract import STEP as PROPOSITIONS


class Rejected(BaseModel):
    """A pair that was removed, or a wording that was given up, and why."""

    model_config = ConfigDict(frozen=True)

    what: Literal["pair", "wording"]
    reason: str
    side: str
    list_number: int
    question: str
    answer: str = ""
    wording: str = ""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A dialog, None where no pair was left, and what was rejected on the way."""

    dialog: Dialog | None
    rejected: tuple[Rejected, ...]


def assemble(
    material: PropositionList,
    draft: Draft,
    wordings: Sequence[str],
    groundings: Sequence[Grounding],
    seen: SeenQuestions,
    model: str,
    seed: int,
) -> Assembled:
    """One dialog from its parts; `wordings` and `groundings` are in the order of the draft's pairs."""
    turns: list[Turn] = []
    rejected: list[Rejected] = []
    said: list[str] = []
    alone = False
    for pair, wording, grounding in zip(draft.pairs, wordings, groundings, strict=True):
        facts = [material.propositions[fact] for fact in grounding.facts]

        reason = "" if grounding.accepted else "not accepted"
        reason = reason or pair_reason(pair.question, pair.answer, [fact.text for fact in facts])
        if not reason and seen.near_duplicate(pair.question):
            reason = "near-duplicate"
        if reason:
            rejected.append(_rejected("pair", reason, material, pair))
            alone = True
            continue
        text = wording
        if alone or not said:
            text = pair.question
        elif why := form_reason(wording, pair.question, "\n".join(said)) or (
            "answer leaked" if leaks(wording, pair.answer) else ""
        ):
            rejected.append(_rejected("wording", why, material, pair, wording))
            text = pair.question
        alone = False
        said += [text, pair.answer]
        documents = tuple(dict.fromkeys(name for fact in facts for name in fact.documents))
        turns += [
            Turn(
                role="user",
                text=text,
                rewrite=pair.question,
                relevant=tuple(fact.id for fact in facts),
                documents=documents,
                kind="question",
            ),
            Turn(role="assistant", text=pair.answer),
        ]
    if not turns:
        return Assembled(None, tuple(rejected))
    documents = tuple(dict.fromkeys(name for turn in turns for name in turn.documents or ()))
    dialog = Dialog(
        dialog_id=_dialog_id(material),
        documents=documents,
        turns=(
            *_small_talk(draft.greeting, "greeting"),
            *turns,
            *_small_talk(draft.thanks, "thanks"),
        ),
        prompts={step: chat_prompt(step).version for step in (PROPOSITIONS, *STEPS)},
        model=model,
        seed=seed,
    )
    return Assembled(dialog, tuple(rejected))


def _rejected(
    what: Literal["pair", "wording"], reason: str, material: PropositionList, pair: Pair, wording: str = ""
) -> Rejected:
    return Rejected(
        what=what,
        reason=reason,
        side=material.side,
        list_number=material.number,
        question=pair.question,
        answer=pair.answer,
        wording=wording,
    )


def _small_talk(exchange: tuple[str, str] | None, kind: Literal["greeting", "thanks"]) -> list[Turn]:
    if exchange is None or not _harmless_talk(exchange[0]):
        return []
    user, assistant = exchange
    return [
        Turn(role="user", text=user, rewrite=user, relevant=(), documents=(), kind=kind),
        Turn(role="assistant", text=assistant),
    ]


def _harmless_talk(text: str) -> bool:
    """Whether it only greets or thanks: a question would have no proposition that answers it."""
    return "?" not in text and len(text.split()) <= 12


def _dialog_id(material: PropositionList) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for proposition in material.propositions:
        digest.update(proposition.id.encode())
    return f"{material.side}-{material.number:04d}-{digest.hexdigest()}"
