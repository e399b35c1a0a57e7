"""From the answers of the three prompts to a dialog: pairs kept or removed, wordings kept or given up.

As in the paper, a removed pair takes its follow-up's support away: the question after it is asked in its stand-alone
form. A wording is judged against what is really said before it.

Small models misnumber the facts an answer rests on: where those do not hold it, the ones it was written from are taken,
or the one that plainly says it. They also leave questions complete, and complete they stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from synth.dialogs.checks import SeenQuestions, form_reason, leaks, pair_reason
from synth.dialogs.lists import PropositionList
from synth.dialogs.rows import Dialog, DialogMessage
from synth.dialogs.steps import STEPS, Draft, Grounding, Pair
from synth.prompts import chat_prompt
from synth.propositions.extract import STEP as PROPOSITIONS
from synth.propositions.store import Proposition
from text.words import stems, words

PLAIN = 0.85
"""Share of an answer's content words by which one proposition says it, whatever number the model gave."""
_MISNUMBERED = frozenset({"answer not covered", "number not covered"})


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
    """A dialog, None where no pair was left, what was rejected on the way, and pairs whose facts were mended."""

    dialog: Dialog | None
    rejected: tuple[Rejected, ...]
    regrounded: int = 0


def assemble(
    material: PropositionList,
    draft: Draft,
    wordings: Sequence[str] | None,
    groundings: Sequence[Grounding],
    seen: SeenQuestions,
    model: str,
    seed: int,
) -> Assembled:
    """One dialog from its parts; `wordings` and `groundings` are in the order of the draft's pairs.

    Without wordings the questions stay complete.
    """
    turns: list[DialogMessage] = []
    rejected: list[Rejected] = []
    said: list[str] = []
    alone, regrounded = False, 0
    for number, (pair, grounding) in enumerate(zip(draft.pairs, groundings, strict=True)):
        facts, reason = _grounded(material, pair, grounding)
        if not reason and words(pair.answer) in [words(answer) for answer in said[1::2]]:
            reason = "answer repeated"
        if not reason and seen.near_duplicate(pair.question):
            reason = "near-duplicate"
        if reason:
            rejected.append(_rejected("pair", reason, material, pair))
            alone = True
            continue
        regrounded += facts != [material.propositions[fact] for fact in grounding.facts]
        wording = pair.question if alone or not said or wordings is None else wordings[number]
        if said and (why := _wording_reason(wording, pair, draft, said)):
            rejected.append(_rejected("wording", why, material, pair, wording))
            wording = pair.question
        alone = False
        said += [wording, pair.answer]
        documents = tuple(dict.fromkeys(name for fact in facts for name in fact.documents))
        turns += [
            DialogMessage(
                role="user",
                text=wording,
                rewrite=pair.question,
                relevant=tuple(fact.id for fact in facts),
                documents=documents,
                kind="question",
            ),
            DialogMessage(role="assistant", text=pair.answer),
        ]
    if not turns:
        return Assembled(None, tuple(rejected), regrounded)
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
    return Assembled(dialog, tuple(rejected), regrounded)


def _wording_reason(wording: str, pair: Pair, draft: Draft, said: Sequence[str]) -> str:
    """Why a wording is given up; empty where it is in order."""
    if any(words(wording) == words(other.question) != words(pair.question) for other in draft.pairs):
        return "another question"
    return form_reason(wording, pair.question, "\n".join(said)) or (
        "answer leaked" if leaks(wording, pair.answer) else ""
    )


def _grounded(material: PropositionList, pair: Pair, grounding: Grounding) -> tuple[list[Proposition], str]:
    """The facts a pair rests on, and why it is removed if it is.

    Tried in turn are those the model named, those it wrote the pair from, and the one that says the answer plainly.
    """
    first = ""
    for numbers in (grounding.facts, pair.facts, _plainly(material, pair)):
        facts = [material.propositions[number] for number in numbers]
        reason = "" if grounding.accepted else "not accepted"
        reason = reason or pair_reason(pair.question, pair.answer, [fact.text for fact in facts])
        if not reason:
            return facts, ""
        first = first or reason
        if first not in _MISNUMBERED:
            break
    return [], first


def _plainly(material: PropositionList, pair: Pair) -> tuple[int, ...]:
    """The number of the one fact that says the answer almost word for word, if there is one."""
    content = set(stems(pair.answer))
    shares = [len(content & set(stems(fact.text))) for fact in material.propositions]
    best = max(range(len(shares)), key=shares.__getitem__)
    return (best,) if content and shares[best] >= PLAIN * len(content) else ()


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


def _small_talk(exchange: tuple[str, str] | None, kind: Literal["greeting", "thanks"]) -> list[DialogMessage]:
    if exchange is None or not _only_greets(exchange[0]):
        return []
    user, assistant = exchange
    return [
        DialogMessage(role="user", text=user, rewrite=user, relevant=(), documents=(), kind=kind),
        DialogMessage(role="assistant", text=assistant),
    ]


def _only_greets(text: str) -> bool:
    """Whether it only greets or thanks: a question would have no proposition that answers it."""
    return "?" not in text and len(text.split()) <= 12


def _dialog_id(material: PropositionList) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for proposition in material.propositions:
        digest.update(proposition.id.encode())
    return f"{material.side}-{material.number:04d}-{digest.hexdigest()}"
