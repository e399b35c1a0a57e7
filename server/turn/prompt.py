"""The messages a model is asked with, and the tokens they cost: instructions, history, numbered passages, question.

Whatever comes from documents, from the history or from the user is made unable to pass for the prompt's own
form: tokens of chat templates, the tags around the passages and numbers like the passages' own. The evidence
shown to people stays exact; only the model's copy is changed. The order of the parts serves prefix caches:
what stays the same from turn to turn comes first.

Tokens are guessed without any model's tokenizer, for the answer may come from any model behind any address, and the
guess leans high. Against the tokenizer of Qwen2.5 it is 1.2 to 1.5 times the truth for English documentation and not
below it in the fourteen other languages it was compared in; `tests/server/test_turn_tokens.py` holds those counts. A
turn counts the same passages several times, and they come back from turn to turn, so the last few thousand paragraphs
are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import regex

from rewriter.protocol import Conversation
from server.settings import HouseInstructions, LLMSettings
from server.turn.citations import escape_citations
from server.turn.events import Evidence
from server.turn.models import AnswerStyle, PromptMessage
from server.turn.tables import with_rows_said
from text.prompts import Interpolated, Prompt, PromptPart, fill, load_prompt, parts_of
from text.sanitize import escape
from text.sentences import sentence_spans

MESSAGE_OVERHEAD = 8
"""Tokens a chat template puts around one message, at most."""

_REMEMBERED = 8192
_LONGEST_REMEMBERED = 2000
"""Characters; a longer paragraph is counted anew, so that what is remembered stays small."""

_WORD = regex.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]+")
_LONG_LATIN = re.compile(r"[A-Za-z]{5,}")
# A quick search for what is no plain character leaves few places to the slow one.
_GAP = re.compile(r"[^\x21-\x7e]+")
_RARE = regex.compile(
    r"(?P<space>\s{2,}|[^\S ])"
    r"|(?P<dense>[\u0e00-\u0e7f\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef])"
    r"|(?P<greek>\p{Greek})|(?P<short>[\x80-\u07ff])|(?P<other>[^\x20-\x7e])"
)
_MARK = 0.6
_COST = {"dense": 0.75, "greek": 1.1, "short": 0.7, "other": 1.8}
_ENGLISH = frozenset(("the", "of", "to", "and", "is", "a", "in", "for", "it", "you", "with"))


class _Counts(NamedTuple):
    """Counts of a paragraph's parts."""

    words: int
    english: int
    beyond: int
    """Basic Latin letters beyond the fourth of their run."""
    cost: float
    """Tokens of everything else."""


def count_tokens(text: str) -> int:
    """A guess, rather high than low, of the tokens of `text` in a byte-pair vocabulary.

    A run of basic Latin letters costs one token and, beyond its fourth letter, a quarter for each letter
    more; more than twice that where the text is not English, whose words such vocabularies know less well. Digits cost
    one each; other characters a fixed share by script, the dearest being scripts of three bytes and more.
    """
    if not text:
        return 0
    paragraphs = text.split("\n\n")
    words = english = beyond = 0
    cost = float(len(paragraphs) - 1)
    for paragraph in paragraphs:
        counts = _remembered(paragraph) if len(paragraph) <= _LONGEST_REMEMBERED else _counts(paragraph)
        words += counts.words
        english += counts.english
        beyond += counts.beyond
        cost += counts.cost
    step = 0.25 if words and english / words >= 0.08 else 0.6
    # Sums of tenths that should be whole are at times a hair less.
    return int(cost + beyond * step + 1e-6) + 1


def _counts(text: str) -> _Counts:
    words = _WORD.findall(text.lower())
    latin, long = _LATIN.findall(text), _LONG_LATIN.findall(text)
    digits = sum(map(text.count, "0123456789"))
    marks = len(text) - text.count(" ") - sum(map(len, latin)) - digits
    cost = float(len(latin) + digits)
    for gap in _GAP.findall(text):
        if gap == " ":
            continue
        marks -= len(gap) - gap.count(" ")
        for match in _RARE.finditer(gap):
            kind = match.lastgroup or "other"
            cost += -(-len(match.group()) // 16) if kind == "space" else _COST[kind]
    return _Counts(
        len(words),
        sum(map(_ENGLISH.__contains__, words)),
        sum(map(len, long)) - 4 * len(long),
        cost + _MARK * marks,
    )


_remembered = lru_cache(_REMEMBERED)(_counts)


PACKAGE = "server.turn"
HISTORY_TOKENS = 300
"""Budget of the history; the local engine reads some ninety tokens a second on two cores."""
HISTORY_MESSAGE_TOKENS = 100
"""Longest message of the history; longer ones are cut at their end."""
CLOSEST_TOKENS = 150
"""Budget of the sentences nearest to the question, which a small model is told again beside the question."""
SEPARATOR = " › "
_ROUNDING = 16

_EXAMPLE = regex.compile(r"^.*\bExample: (.+?)\s*$", regex.MULTILINE)
_CITED = regex.compile(r"[ ]?(?:\[\d{1,3}\])+")


@dataclass(frozen=True, slots=True)
class TurnPrompt:
    """The messages, the tokens they are expected to cost, and the version of the instructions."""

    messages: tuple[PromptMessage, ...]
    tokens: int
    version: str


NO_HOUSE = HouseInstructions()


def evidence_budget(
    question: str, llm: LLMSettings, style: AnswerStyle = "short", house: HouseInstructions = NO_HOUSE
) -> int:
    """Tokens a model is shown of the numbered passages: the setting, or less where the context window is small."""
    room = llm.context_tokens - llm.longest_answer(style) - _fixed_tokens(style, house) - count_tokens(question)
    room -= CLOSEST_TOKENS if style == "short" else 0
    return max(min(llm.evidence_tokens, room), 0)


def build_prompt(
    question: str,
    conversation: Conversation,
    evidence: Sequence[Evidence],
    llm: LLMSettings,
    *,
    meaning: str = "",
    about: Sequence[str] = (),
    excerpts: Mapping[int, str] | None = None,
    closest: Sequence[tuple[int, str]] = (),
    style: AnswerStyle = "short",
    sufficient: float | None = None,
    house: HouseInstructions = NO_HOUSE,
) -> TurnPrompt:
    """The request for an answer of a `style` to `question`, within `llm.context_tokens` less the answer's own.

    `meaning` is the question in full where the typed one leans on the conversation, `about` the terms of the
    conversation that it speaks of, where no sentence is known that says it in full. `excerpts` holds what to show of
    each passage by its number; a passage without one is left out. `closest` are the sentences nearest to the question
    with their passages' numbers, told to a model that writes short answers, `CLOSEST_TOKENS` at most; `sufficient`, how
    likely the passages answer, is told to one that writes full answers and judges that itself. What the `house` asks
    stands behind the rules, and before the question's form, which says them again. The history gets what is left,
    newest turns first, at most `HISTORY_TOKENS`.
    """
    system = _instructions(style)
    form = load_prompt(PACKAGE, f"question_{style}")
    room = llm.context_tokens - llm.longest_answer(style) - _fixed_tokens(style, house)
    typed = question
    if meaning and meaning != question:
        typed = f"{question}\nThey mean: {meaning}"
    elif about:
        typed = f"{question} (speaking of: {', '.join(about)})"
    typed = clip(typed, room // 2)
    near = [(n, clip(quote, CLOSEST_TOKENS // len(closest) - 6)) for n, quote in closest]
    room -= count_tokens(typed) + sum(count_tokens(quote) + 6 for _, quote in near)
    texts = {passage.n: passage.opened for passage in evidence} if excerpts is None else excerpts
    passages = _passages([passage for passage in evidence if passage.n in texts], texts, max(room, 0))
    room -= count_tokens(passages)
    history = _history(conversation, min(room, HISTORY_TOKENS))
    parts = {"question": escape(typed), "passages": passages}
    if style == "full":
        parts["sufficient"] = "unknown" if sufficient is None else f"{sufficient:.0%}"
    else:
        parts["closest"] = (
            "\n".join(f"[{n}] {escape_citations(escape(' '.join(quote.split())))}" for n, quote in near) or "(none)"
        )
    last = fill(form.text, parts)
    rules = PromptMessage("system", system.text + house_part(house))
    messages = (rules, *history, PromptMessage("user", last))
    tokens = sum(count_tokens(message.text) + MESSAGE_OVERHEAD for message in messages)
    return TurnPrompt(messages, tokens, f"{system.version}.{form.version}")


def house_part(house: HouseInstructions) -> str:
    """Return what the house asks of an answer's form: on one line each, unable to pass for a rule or a passage."""
    name, tone, never = (
        escape_citations(escape(" ".join(text.split()))) for text in (house.name, house.tone, ", ".join(house.never))
    )
    asks = (name and f"Your name: {name}", tone and f"Tone: {tone}", never and f"Words never to use: {never}")
    lines = "".join(f"\n- {ask}" for ask in asks if ask)
    return f"\n\nOf the form alone, and without changing any of these rules:{lines}" if lines else ""


def instructions(style: AnswerStyle = "short") -> PromptMessage:
    """The message every request begins with: a model that has read it once need not read it again."""
    return PromptMessage("system", _instructions(style).text)


def _instructions(style: AnswerStyle) -> Prompt:
    return load_prompt(PACKAGE, f"answer_{style}")


@cache
def examples() -> tuple[str, ...]:
    """The sentences that the instructions, of either style, give as an example of citing, without their numbers."""
    match = _EXAMPLE.search(instructions().text)
    text = _CITED.sub("", match[1]) if match else ""
    return tuple(text[start:end].rstrip(".") for start, end in sentence_spans(text))


def clip(text: str, tokens: int) -> str:
    """The beginning of `text` that costs at most `tokens`, marked with an ellipsis where something is cut."""
    if count_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) < tokens else (low, middle - 1)
    return text[:low].rstrip() + "…" if low else ""


def _fixed_tokens(style: AnswerStyle, house: HouseInstructions) -> int:
    texts = (_instructions(style).text + house_part(house), load_prompt(PACKAGE, f"question_{style}").text)
    return sum(count_tokens(text) + MESSAGE_OVERHEAD for text in texts) + _ROUNDING


def _passages(evidence: Sequence[Evidence], texts: Mapping[int, str], room: int) -> str:
    passages = [_passage(passage, texts[passage.n]) for passage in evidence]
    between = PromptPart("\n\n")
    joined = Interpolated.of(
        part for n, prompt in enumerate(passages) for part in ((between,) * (n > 0) + parts_of(prompt))
    )
    if count_tokens(joined) <= room:
        return joined
    # Only where one passage alone is larger than the window: the selection keeps to the budget.
    share = room // max(len(evidence), 1)
    return "\n\n".join(clip(passage, share) for passage in passages)


def header(passage: Evidence) -> str:
    """Return the header above a passage for a model, without its number: title and heading path, escaped."""
    parts = (passage.title, *passage.heading)
    return escape_citations(escape(SEPARATOR.join(" ".join(part.split()) for part in parts if part.strip())))


def _passage(passage: Evidence, text: str) -> Interpolated:
    content, name = escape_citations(escape(with_rows_said(text))).strip(), f"[{passage.n}]"
    parts = (PromptPart(header(passage), f"{name}.heading"), PromptPart("\n"), PromptPart(content, f"{name}.text"))
    return Interpolated.of((PromptPart(f"{name} "), *parts))


def _history(conversation: Conversation, room: int) -> list[PromptMessage]:
    messages: list[PromptMessage] = []
    for n, turn in enumerate(reversed(conversation.messages), start=1):
        text = clip(escape_citations(escape(_CITED.sub("", turn.text))).strip(), HISTORY_MESSAGE_TOKENS)
        room -= count_tokens(text) + MESSAGE_OVERHEAD
        if room < 0:
            break
        if text:
            messages.append(PromptMessage(turn.role, Interpolated.of([PromptPart(text, f"history[-{n}]")])))
    return messages[::-1]
