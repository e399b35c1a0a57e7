"""From the answers of the three prompts to a dialog: pairs kept or removed, wordings kept or given up.

As in the paper, a removed pair takes its follow-up's support away: the question after it is asked in its stand-alone
form. A wording is judged against what is really said before it.

Small models misnumber the facts an answer rests on: where those do not hold it, the ones it was written from are taken,
or the one that plainly says it. They also leave questions complete, and complete they stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import regex
from pydantic import BaseModel, ConfigDict

from synth.dialogs import STEPS, Dialog, DialogMessage, Draft, Grounding, Pair, PropositionList
from synth.propositions import STEP as PROPOSITIONS
from synth.propositions import Proposition, reference, shared
from synth.tasks import chat_prompt
from text.words import negations, numbers, stems, words

if TYPE_CHECKING:
    from index.encoders import Encoder, Vectors


MIN_COVERED = 0.6
"""Share of an answer's content words that its propositions (and its question) must hold."""
LEAKED = 0.85
"""Share of an answer's content words that its question may not reach."""
_LEAK_WORDS = 3
_NEAR = 0.95
_NEAR_SHARED = 0.8
_MAX_QUESTION_WORDS = 45
_MIN_WORDS = 2
_STRANGERS = 1
_OWN_WORDS = 0.5
_YES_NO = regex.compile(r"^\s*(?:yes|no|ja|nein|oui|non|sí|si|no)\b", regex.IGNORECASE)
_MARKUP = regex.compile(r"</?\w+>|```|‹|\{\{|\]\(|^\s*[{\[]")
_ITEM = regex.compile(r"^\s*[*•–-]\s")
# About the material instead of the matter: nobody who chats has "the facts" before them.
_META = regex.compile(
    r"\b(?:the (?:above |given |following |numbered )?(?:facts?|propositions?)"
    r"|the (?:above|given) (?:text|list|passage)"
    r"|(?:fact|proposition) (?:number )?\d+|(?:previous|above) instructions?)\b",
    regex.IGNORECASE,
)


def pair_reason(question: str, answer: str, propositions: Sequence[str]) -> str:
    """Why a pair is removed; empty if it stays. `propositions` are those it is grounded in."""
    if not propositions:
        return "no proposition"
    if not _well_formed(question) or _ITEM.match(answer):
        return "form"
    if _META.search(question) or _META.search(answer):
        return "about the material"
    if reference(question):
        return "not stand-alone"
    facts = " ".join(propositions)
    if numbers(answer) - numbers(f"{facts} {question}"):
        return "number not covered"
    content, known_stems = set(stems(answer)), set(stems(f"{facts} {question}"))
    if len(content & known_stems) < MIN_COVERED * len(content) or (negations(answer) and not _may_deny(answer, facts)):
        return "answer not covered"
    return "answer leaked" if leaks(question, answer) else ""


def leaks(question: str, answer: str) -> bool:
    """Whether the question says what the answer says. Yes and no repeat their question by nature."""
    content = set(stems(answer))
    if _YES_NO.match(answer) or len(content) < _LEAK_WORDS:
        return False
    return len(content & set(stems(question))) >= LEAKED * len(content)


def form_reason(wording: str, rewrite: str, history: str) -> str:
    """Why a contextualised wording is given up; empty if it stays.

    `history` is everything said before. A wording equal to the rewrite is in order.
    """
    if not words(wording):
        return "empty"
    if words(wording) == words(rewrite):
        return ""
    if not _well_formed(wording, least=1):
        return "form"
    if numbers(wording) - numbers(rewrite) or bool(negations(wording)) != bool(negations(rewrite)):
        return "changed meaning"
    typed, full, history_stems = set(stems(wording)), set(stems(rewrite)), set(stems(history))
    # People add words of their own when they follow up; what shares nothing with question and talk asks another thing.
    strangers = typed - full - history_stems
    if len(strangers) > max(_STRANGERS, _OWN_WORDS * len(typed)) or (typed and not typed & (full | history_stems)):
        return "changed meaning"
    if len(full - typed - history_stems) > _STRANGERS:
        return "not resolvable"
    if not reference(wording) and not full - typed:
        return "independent of history"
    return ""


@dataclass
class SeenQuestions:
    """The questions kept so far, to find near-duplicates among later ones."""

    encoder: Encoder
    _vectors: list[Vectors] = field(default_factory=list)
    _words: list[frozenset[str]] = field(default_factory=list)
    _marks: list[tuple[frozenset[str], bool]] = field(default_factory=list)

    def near_duplicate(self, question: str) -> bool:
        """Whether a question like this was kept before; if not, it counts as kept from now on."""
        content = frozenset(stems(question))
        marks = (frozenset(numbers(question)), negations(question) > 0)
        vector = self.encoder.encode([question])[0]
        if self._vectors:
            similar = np.stack(self._vectors) @ vector
            for place in np.nonzero(similar >= _NEAR)[0]:
                if shared(content, self._words[int(place)]) >= _NEAR_SHARED and self._marks[int(place)] == marks:
                    return True
        self._vectors.append(vector)
        self._words.append(content)
        self._marks.append(marks)
        return False


def _well_formed(question: str, least: int = _MIN_WORDS) -> bool:
    """Whether it looks like something a person types: some words, not too many, no markup."""
    count = len(words(question))
    return least <= count <= _MAX_QUESTION_WORDS and not _MARKUP.search(question)


def _may_deny(answer: str, facts: str) -> bool:
    """Whether an answer's “no” has one in the propositions; a leading No may follow from a limit they state."""
    rest = _YES_NO.sub("", answer, count=1)
    return not negations(rest) or negations(facts) > 0


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
    answers: list[str] = []
    alone, regrounded = False, 0
    for number, (pair, grounding) in enumerate(zip(draft.pairs, groundings, strict=True)):
        facts, reason = _grounded(material, pair, grounding)
        if not reason and words(pair.answer) in [words(answer) for answer in answers[1::2]]:
            reason = "answer repeated"
        if not reason and seen.near_duplicate(pair.question):
            reason = "near-duplicate"
        if reason:
            rejected.append(_rejected("pair", reason, material, pair))
            alone = True
            continue
        regrounded += facts != [material.propositions[fact] for fact in grounding.facts]
        wording = pair.question if alone or not answers or wordings is None else wordings[number]
        if answers and (why := _wording_reason(wording, pair, draft, answers)):
            rejected.append(_rejected("wording", why, material, pair, wording))
            wording = pair.question
        alone = False
        answers += [wording, pair.answer]
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
        turns=(*_small_talk(draft.greeting, "greeting"), *turns, *_small_talk(draft.thanks, "thanks")),
        prompts={step: chat_prompt(step).version for step in (PROPOSITIONS, *STEPS)},
        model=model,
        seed=seed,
    )
    return Assembled(dialog, tuple(rejected), regrounded)


def _wording_reason(wording: str, pair: Pair, draft: Draft, answers: Sequence[str]) -> str:
    """Why a wording is given up; empty where it is in order."""
    if any(words(wording) == words(other.question) != words(pair.question) for other in draft.pairs):
        return "another question"
    return form_reason(wording, pair.question, "\n".join(answers)) or (
        "answer leaked" if leaks(wording, pair.answer) else ""
    )


def _grounded(material: PropositionList, pair: Pair, grounding: Grounding) -> tuple[list[Proposition], str]:
    """The facts a pair rests on, and why it is removed if it is.

    Tried in turn are those the model named, those it wrote the pair from, and the one that says the answer plainly.
    """
    first = ""
    for places in (grounding.facts, pair.facts, _plainly(material, pair)):
        facts = [material.propositions[place] for place in places]
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
    # More than a greeting or thanks would be a question without a proposition that answers it.
    if exchange is None or "?" in exchange[0] or len(exchange[0].split()) > 12:
        return []
    user, assistant = exchange
    return [
        DialogMessage(role="user", text=user, rewrite=user, relevant=(), documents=(), kind=kind),
        DialogMessage(role="assistant", text=assistant),
    ]


def _dialog_id(material: PropositionList) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for proposition in material.propositions:
        digest.update(proposition.id.encode())
    return f"{material.side}-{material.number:04d}-{digest.hexdigest()}"
