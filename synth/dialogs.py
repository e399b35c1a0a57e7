"""Dialogs: which propositions one is made from, the three prompts that make it, and how it is kept.

Documents are given to train, dev and test by seed before anything is written about them, and a list never crosses
sides; so no document can be on two of them. A proposition that documents of several sides say is in no list. The
answer of each step is read strictly: numbers that name nothing are dropped, a list of another length is invalid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from synth.folder import SIDES, read_rows
from synth.propositions import Proposition
from synth.tasks import InvalidAnswer, Task, chat_prompt, demand_language
from text.sanitize import escape
from text.words import words


class DialogMessage(BaseModel):
    """One message.

    A user's carries `rewrite` (the question in full, equal to `text` where that stands alone), `relevant`
    (ids of the propositions that answer it) and their `documents`; `kind` tells a greeting or thanks from
    a question.
    """

    model_config = ConfigDict(frozen=True)

    role: Literal["user", "assistant"]
    text: str
    rewrite: str | None = None
    relevant: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None
    kind: Literal["question", "greeting", "thanks"] | None = None

    @property
    def asks(self) -> bool:
        """Whether it is a question that propositions answer."""
        return self.role == "user" and bool(self.relevant)

    @property
    def needs_rewrite(self) -> bool:
        """Whether the question is not understood alone."""
        return self.asks and words(self.text) != words(self.rewrite or "")


class Dialog(BaseModel):
    """A conversation and how it came about.

    `prompts` are prompt versions by step.
    """

    model_config = ConfigDict(frozen=True)

    dialog_id: str
    documents: tuple[str, ...]
    turns: tuple[DialogMessage, ...]
    prompts: dict[str, str] = {}
    model: str = ""
    seed: int = 0

    def questions(self) -> list[DialogMessage]:
        """The user's questions, in order."""
        return [turn for turn in self.turns if turn.asks]


def dialog_line(dialog: Dialog) -> str:
    """A dialog as a line of JSON, without what a turn does not have."""
    return json.dumps(dialog.model_dump(exclude_none=True, mode="json"), ensure_ascii=False)


def read_dialogs(path: Path) -> Iterator[Dialog]:
    """The dialogs of a file. Raises BadStore naming a line that is none."""
    return read_rows(path, Dialog, "dialog")


SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


@dataclass(frozen=True, slots=True)
class PropositionList:
    """Neighbouring propositions of one side, in document order; `number` counts from 0 within the side."""

    side: str
    number: int
    propositions: tuple[Proposition, ...]


def sides(sizes: Mapping[str, int], seed: int) -> dict[str, str]:
    """The side of each document, given how many propositions it has.

    Sides get about their share of the propositions, and each gets a document. Fewer than three are all trained on.
    """
    if len(sizes) < len(SIDES):
        return dict.fromkeys(sizes, "train")
    order = sorted(sizes, key=lambda name: hashlib.blake2b(f"{seed}\x00{name}".encode()).digest())
    total = sum(sizes.values())
    sides: dict[str, str] = {}
    for side, later in (("test", 2), ("dev", 1)):
        assigned = 0
        # The sides that come later need a document each.
        while len(order) > later:
            # Half a document too many is better than half a one too few.
            if assigned and assigned + sizes[order[-1]] / 2 > SHARES[side] * total:
                break
            assigned += sizes[order[-1]]
            sides[order.pop()] = side
            if assigned >= SHARES[side] * total:
                break
    sides.update(dict.fromkeys(order, "train"))
    return {name: sides[name] for name in sizes}


def make_lists(propositions: Sequence[Proposition], size: int, seed: int) -> tuple[list[PropositionList], int]:
    """Non-overlapping lists of `size` in document order (the paper's n), and how many propositions are in none.

    A side's last list may be shorter; one of less than a third joins the list before it.
    """
    sizes: dict[str, int] = {}
    for proposition in propositions:
        for document in proposition.documents:
            sizes[document] = sizes.get(document, 0) + (document == proposition.document_id)
    side_of = sides(sizes, seed)
    lists: list[PropositionList] = []
    shared = 0
    for side in SIDES:
        own: list[Proposition] = []
        for proposition in propositions:
            where = {side_of[document] for document in proposition.documents}
            if where == {side}:
                own.append(proposition)
            elif len(where) > 1 and side_of[proposition.document_id] == side:
                shared += 1
        cuts = list(range(0, len(own), size))
        if len(cuts) > 1 and len(own) - cuts[-1] < size / 3:
            cuts.pop()
        for number, start in enumerate(cuts):
            end = len(own) if start == cuts[-1] else start + size
            lists.append(PropositionList(side, number, tuple(own[start:end])))
    return lists, shared


DIALOG, CONTEXTUALISE, GROUND = STEPS = ("dialog", "contextualise", "ground")
_MOST_PAIRS = 60
_QUESTION_CHARS = 300
_ANSWER_CHARS = 600
_SMALL_TALK_CHARS = 120
_EXCHANGE = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {"user": {"type": "string"}, "assistant": {"type": "string"}},
            "required": ["user", "assistant"],
            "additionalProperties": False,
        },
    ]
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A question that stands alone, its answer, and the numbers (from 0) of the facts it was made from."""

    question: str
    answer: str
    facts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A dialog as first written; `greeting` and `thanks` are a user's words and the assistant's."""

    pairs: tuple[Pair, ...]
    greeting: tuple[str, str] | None = None
    thanks: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Grounding:
    """The propositions that support an answer according to the model (numbers from 0), and whether it accepts the
    pair."""

    facts: tuple[int, ...]
    accepted: bool


def writing(material: PropositionList, count_tokens: Callable[[str], int]) -> Task[Draft]:
    """The task of writing a dialog from a list of propositions."""
    prompt = chat_prompt(DIALOG)
    facts = _numbered([proposition.text for proposition in material.propositions])
    count = len(material.propositions)
    pair = {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "answer": {"type": "string"},
            "facts": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
        },
        "required": ["question", "answer", "facts"],
        "additionalProperties": False,
    }
    return Task(
        step=DIALOG,
        item=_item(material),
        system=prompt.system,
        user=prompt.fill(facts=facts),
        schema={
            "type": "object",
            "properties": {
                "greeting": _EXCHANGE,
                "pairs": {"type": "array", "minItems": 1, "maxItems": min(count, _MOST_PAIRS), "items": pair},
                "thanks": _EXCHANGE,
            },
            "required": ["greeting", "pairs", "thanks"],
            "additionalProperties": False,
        },
        max_tokens=200 + 35 * count + count_tokens(facts),
        read=lambda data: _read_draft(data, count, facts),
        mend=_without_last_pair,
    )


def contextualising(
    material: PropositionList, draft: Draft, count_tokens: Callable[[str], int]
) -> Task[tuple[str, ...]]:
    """The task of wording a draft's questions as they are asked within the conversation."""
    prompt = chat_prompt(CONTEXTUALISE)
    count = len(draft.pairs)
    questions = " ".join(pair.question for pair in draft.pairs)
    return Task(
        step=CONTEXTUALISE,
        item=_item(material),
        system=prompt.system,
        user=prompt.fill(pairs=_pairs(draft.pairs), count=str(count)),
        schema={
            "type": "object",
            "properties": {
                "questions": {"type": "array", "minItems": count, "maxItems": count, "items": {"type": "string"}}
            },
            "required": ["questions"],
            "additionalProperties": False,
        },
        max_tokens=100 + 8 * count + 2 * count_tokens(questions),
        read=lambda data: _read_questions(data, count, questions),
    )


def grounding(material: PropositionList, draft: Draft) -> Task[tuple[Grounding, ...]]:
    """The task of saying what each answer rests on."""
    prompt = chat_prompt(GROUND)
    count = len(draft.pairs)
    facts = [proposition.text for proposition in material.propositions]
    entry = {
        "type": "object",
        "properties": {
            "facts": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
            "accepted": {"type": "boolean"},
        },
        "required": ["facts", "accepted"],
        "additionalProperties": False,
    }
    return Task(
        step=GROUND,
        item=_item(material),
        system=prompt.system,
        user=prompt.fill(facts=_numbered(facts), pairs=_pairs(draft.pairs), count=str(count)),
        schema={
            "type": "object",
            "properties": {"pairs": {"type": "array", "minItems": count, "maxItems": count, "items": entry}},
            "required": ["pairs"],
            "additionalProperties": False,
        },
        max_tokens=100 + 40 * count,
        read=lambda data: _read_groundings(data, count, len(facts)),
    )


def _read_draft(data: Any, count: int, facts: str) -> Draft:
    pairs = data.get("pairs")
    if not isinstance(pairs, list):
        raise InvalidAnswer('It needs a list "pairs".')
    drafts: list[Pair] = []
    for entry in pairs[:_MOST_PAIRS]:
        if not isinstance(entry, dict):
            raise InvalidAnswer('Every entry of "pairs" must be an object with "question", "answer" and "facts".')
        question, answer = _text(entry, "question", _QUESTION_CHARS), _text(entry, "answer", _ANSWER_CHARS)
        if question and answer:
            drafts.append(Pair(question, answer, _numbers(entry.get("facts"), count)))
    if not drafts:
        raise InvalidAnswer('There is no pair with a "question" and an "answer".')
    demand_language([f"{pair.question} {pair.answer}" for pair in drafts], facts)
    return Draft(tuple(drafts), _exchange(data.get("greeting")), _exchange(data.get("thanks")))


def _read_questions(data: Any, count: int, complete: str) -> tuple[str, ...]:
    questions = data.get("questions")
    if not isinstance(questions, list) or not all(isinstance(question, str) for question in questions):
        raise InvalidAnswer('It needs a list "questions" of strings.')
    if len(questions) != count:
        raise InvalidAnswer(f'"questions" has {len(questions)} entries where there are {count} questions.')
    demand_language(questions, complete)
    return tuple(_line(question)[:_QUESTION_CHARS] for question in questions)


def _read_groundings(data: Any, count: int, facts: int) -> tuple[Grounding, ...]:
    groundings = data.get("pairs")
    if not isinstance(groundings, list) or not all(isinstance(entry, dict) for entry in groundings):
        raise InvalidAnswer('It needs a list "pairs" of objects with "facts" and "accepted".')
    if len(groundings) != count:
        raise InvalidAnswer(f'"pairs" has {len(groundings)} entries where there are {count} pairs.')
    return tuple(Grounding(_numbers(entry.get("facts"), facts), entry.get("accepted") is True) for entry in groundings)


def _without_last_pair(data: Any) -> Any:
    """An answer that was cut: its last pair is half of one."""
    pairs = data.get("pairs")
    return {**data, "pairs": pairs[:-1], "thanks": None} if isinstance(pairs, list) else data


def _numbers(value: Any, most: int) -> tuple[int, ...]:
    """Numbers from 1 to `most` as numbers from 0, each once; anything else is left out."""
    if not isinstance(value, list):
        return ()
    whole = [number for number in value if isinstance(number, int) and not isinstance(number, bool)]
    return tuple(dict.fromkeys(number - 1 for number in whole if 1 <= number <= most))


def _exchange(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    user, assistant = _text(value, "user", _SMALL_TALK_CHARS), _text(value, "assistant", _SMALL_TALK_CHARS)
    return (user, assistant) if user and assistant else None


def _text(entry: dict[str, Any], name: str, longest: int) -> str:
    """A field as one escaped line; empty where it is no string or too long to be what it should."""
    value = entry.get(name)
    line = _line(value) if isinstance(value, str) else ""
    return line if len(line) <= longest else ""


def _line(text: str) -> str:
    return " ".join(escape(text).split())


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {_line(text)}" for number, text in enumerate(texts, start=1))


def _pairs(pairs: Sequence[Pair]) -> str:
    return "\n".join(
        f"{number}. Question: {pair.question}\n   Answer: {pair.answer}" for number, pair in enumerate(pairs, start=1)
    )


def _item(material: PropositionList) -> str:
    return f"{material.side} list {material.number + 1}"
