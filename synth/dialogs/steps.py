"""The three prompts of a dialog: write it, make its questions depend on each other, ground its answers.

Each step's answer is read strictly: numbers that name nothing are dropped, a list of another length than asked for is
an invalid answer. The replies are judged in `synth.dialogs.assemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synth.dialogs.lists import PropositionList
from synth.prompts import chat_prompt
from synth.running import InvalidAnswer, Task
from text.sanitize import escape

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
        read=lambda data: _read_draft(data, count),
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
        read=lambda data: _read_questions(data, count),
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


def _read_draft(data: Any, facts: int) -> Draft:
    pairs = data.get("pairs")
    if not isinstance(pairs, list):
        raise InvalidAnswer('It needs a list "pairs".')
    drafts: list[Pair] = []
    for entry in pairs[:_MOST_PAIRS]:
        if not isinstance(entry, dict):
            raise InvalidAnswer('Every entry of "pairs" must be an object with "question", "answer" and "facts".')
        question, answer = _text(entry, "question", _QUESTION_CHARS), _text(entry, "answer", _ANSWER_CHARS)
        if question and answer:
            drafts.append(Pair(question, answer, _numbers(entry.get("facts"), facts)))
    if not drafts:
        raise InvalidAnswer('There is no pair with a "question" and an "answer".')
    return Draft(tuple(drafts), _exchange(data.get("greeting")), _exchange(data.get("thanks")))


def _read_questions(data: Any, count: int) -> tuple[str, ...]:
    questions = data.get("questions")
    if not isinstance(questions, list) or not all(isinstance(question, str) for question in questions):
        raise InvalidAnswer('It needs a list "questions" of strings.')
    if len(questions) != count:
        raise InvalidAnswer(f'"questions" has {len(questions)} entries where there are {count} questions.')
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
