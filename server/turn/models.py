"""The models of a turn, the messages that one is asked with, the tokens they cost, and the stream of its answer.

Opening models belongs to the chat service. `short` answers suit a small model on a CPU, `full` ones larger and faster
models; each style has its own instructions (`answer_<style>.md`). `ModelStream` passes text on as it comes;
`server.turn.answer` decides what of it is shown.

A small model on a processor reads forty to ninety tokens a second, so `excerpts` gives it only the best sentences.

Whatever comes from documents, from the history or from the user is made unable to pass for the prompt's own form:
tokens of chat templates, the tags around the passages and numbers like the passages' own. The evidence shown to people
stays exact; only the model's copy is changed. The order of the parts serves prefix caches: what stays the same from
turn to turn comes first.

Tokens are guessed without any model's tokenizer, for the answer may come from any model behind any address, and the
guess leans high. Against the tokenizer of Qwen2.5 it is 1.2 to 1.5 times the truth for English documentation and not
below it in the fourteen other languages it was compared in; `tests/server/test_turn_tokens.py` holds those counts. A
turn counts the same passages several times, and they come back from turn to turn, so the last few thousand paragraphs
are remembered.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

import regex

from rewriter.prompted import model_errors
from rewriter.protocol import Conversation, Rewriter
from server.settings import HouseInstructions, LLMSettings
from server.turn.citations import escape_citations, header
from server.turn.events import Evidence, TurnFailed
from server.turn.quote_shapes import ITEM, LEADS_IN
from text.prompts import Interpolated, Prompt, PromptPart, fill, load_prompt, parts_of
from text.recorder import Call
from text.sanitize import escape
from text.sentences import sentence_spans, table_rows, with_rows_said

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

    from index.rerank import Reranker
    from server.turn.support import PairModel, Support, SupportScorer


AnswerStyle: TypeAlias = Literal["short", "full"]

FULL_WINDOW = 8192
"""Tokens of context from which on a model is taken for one that writes full answers well."""
FULL_PACE = 20.0
"""Tokens a second at which a full answer of 300 is there in a quarter of a minute."""

_NEWEST = 0.3


class WritingPace:
    """How fast a model writes, from the answers it wrote; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens_per_second = 0.0
        """The newest answers weigh most; 0 before the first."""

    def add(self, tokens: int, seconds: float) -> None:
        """One more answer, timed from its first piece; those of a few tokens tell nothing."""
        if tokens < 10 or seconds <= 0:
            return
        with self._lock:
            before = self.tokens_per_second or tokens / seconds
            self.tokens_per_second = before + _NEWEST * (tokens / seconds - before)


def answer_style(llm: LLMSettings, window: int = 0, pace: WritingPace | None = None) -> AnswerStyle:
    """The style of the next answer.

    `window` is the context that the model's server tells, in tokens; 0 takes the settings'. `auto` is full for a model
    with a large one that writes fast.
    """
    if llm.style != "auto":
        return llm.style
    return "full" if writes_fast(llm, pace) and max(window, llm.context_tokens) >= FULL_WINDOW else "short"


def writes_fast(llm: LLMSettings, pace: WritingPace | None = None) -> bool:
    """Return whether the model writes `FULL_PACE`; until an answer was timed, one at an address is believed to."""
    speed = pace.tokens_per_second if pace else 0.0
    return speed >= FULL_PACE if speed else llm.remote


@dataclass(frozen=True, slots=True)
class TurnModels:
    """Models of one turn; without a `chat_model` sentences are quoted. `name` says what answers, for traces.

    `style` is how it is to answer, and `pace` is told how fast it did. `pairs` reads what it wrote beside
    what it cites.
    """

    rewriter: Rewriter
    reranker: Reranker | None = None
    chat_model: BaseChatModel | None = None
    name: str = "none"
    style: AnswerStyle = "short"
    pace: WritingPace | None = None
    pairs: PairModel | None = None

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """The same for every turn."""
        return self

    async def of_search(self, group: str = "") -> TurnModels:
        """The same for every search."""
        return self


class ModelSource(Protocol):
    """Gives what works on a turn, or a search, as it begins: models change under a running server."""

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        """For an answer of at most `answer_tokens`, or as long as the settings allow. The prompt cache of a model's
        server is separate for each `group`."""

    async def of_search(self, group: str = "") -> TurnModels:
        """For a search alone, which needs no model that answers."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """A piece of the model's text; the last ones carry why it ended and what it cost, if the model tells."""

    text: str
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def counted(self, piece: GeneratedText) -> GeneratedText:
        """With what one more piece tells of the end and the cost: the newest figures win."""
        return replace(
            self,
            finish_reason=piece.finish_reason or self.finish_reason,
            prompt_tokens=max(piece.prompt_tokens, self.prompt_tokens),
            completion_tokens=max(piece.completion_tokens, self.completion_tokens),
        )


class ModelStream(AsyncIterator[GeneratedText]):
    """The pieces of one answer as they come; the request for it belongs to `step`.

    Reading raises TurnFailed with llm_timeout, llm_unreachable or llm_failed. Closing the stream, or cancelling the
    task that reads it, closes the request to the model at once.
    """

    def __init__(
        self, chat_model: BaseChatModel, messages: Sequence[PromptMessage], *, timeout_seconds: float, step: Call
    ) -> None:
        self._chunks = cast("AsyncGenerator[AIMessageChunk, None]", chat_model.astream(_langchain(messages)))
        self._step = step
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + timeout_seconds
        self._cancellations = _cancellations()
        self._spoke = False

    async def aclose(self) -> None:
        """Close the request to the model."""
        await self._chunks.aclose()

    async def __anext__(self) -> GeneratedText:
        try:
            # Around each wait alone: a reader's pauses are not the model's.
            with self._step.current():
                async with asyncio.timeout_at(self._deadline):
                    chunk = await anext(self._chunks, None)
        except model_errors() as error:
            raise self._failure(error) from error
        # A client that waits with asyncio.wait_for loses a cancellation that meets a chunk (Python 3.11).
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError
        if chunk is None:
            raise StopAsyncIteration
        self._spoke = self._spoke or bool(chunk.text)
        return _piece(chunk)

    def _failure(self, error: Exception) -> TurnFailed:
        import httpx
        import openai

        # First line of the error, short enough for a person to read.
        line = (str(error).strip().splitlines() or [""])[0][:200]
        brief = f"{type(error).__name__}: {line}" if line else type(error).__name__
        if isinstance(error, TimeoutError | openai.APITimeoutError | httpx.TimeoutException):
            waited = f"{asyncio.get_running_loop().time() - self._began:.0f} s"
            what = f"was stopped after {waited}, before its end" if self._spoke else f"said nothing for {waited}"
            advice = "Ask for something shorter, try again, or raise llm.timeout_seconds."
            return TurnFailed("llm_timeout", f"The language model {what}. {advice}")
        if isinstance(error, openai.APIConnectionError | httpx.TransportError | ConnectionError):
            what = "was lost while it answered" if self._spoke else "cannot be reached"
            advice = "Check that its server runs, then try again."
            return TurnFailed("llm_unreachable", f"The language model {what} ({brief}). {advice}")
        text = f"The language model answered with an error ({brief}). The log of its server says more."
        return TurnFailed("llm_failed", text)


def _cancellations() -> int:
    """How often the current task has been asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _langchain(messages: Sequence[PromptMessage]) -> list[BaseMessage]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    return [kinds[message.role](message.text) for message in messages]


def _piece(chunk: AIMessageChunk) -> GeneratedText:
    usage = chunk.usage_metadata
    return GeneratedText(
        text=chunk.text,
        finish_reason=str(chunk.response_metadata.get("finish_reason") or ""),
        prompt_tokens=usage["input_tokens"] if usage else 0,
        completion_tokens=usage["output_tokens"] if usage else 0,
    )


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


def count_tokens(text: str) -> int:
    """A guess, rather high than low, of the tokens of `text` in a byte-pair vocabulary.

    A run of basic Latin letters costs one token and, beyond its fourth letter, a quarter for each letter
    more; more than twice that where the text is not English, whose words such vocabularies know less well. Digits cost
    one each; other characters a fixed share by script, the dearest being scripts of three bytes and more.
    """
    if not text:
        return 0
    paragraphs = text.split("\n\n")
    counts = [
        _remembered(paragraph) if len(paragraph) <= _LONGEST_REMEMBERED else _counts(paragraph)
        for paragraph in paragraphs
    ]
    words, english, beyond, cost = map(sum, zip(*counts, strict=True))
    step = 0.25 if words and english / words >= 0.08 else 0.6
    # Sums of tenths that should be whole are at times a hair less.
    return int(len(paragraphs) - 1 + cost + beyond * step + 1e-6) + 1


def _counts(text: str) -> tuple[int, int, int, float]:
    """Words, those of English, basic Latin letters beyond the fourth of their run, and tokens of everything else."""
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
    return (
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


HEADER_TOKENS = 12
"""Tokens that number and delimit one passage, beside its title and heading path."""


GAP = " … "
"""Stands for what is left out between two sentences."""

_PER_RANK = 0.8
"""A passage's worth, as a share of that of the one found before it."""
_ANYWAY = 0.2
"""A sentence's worth without a match: most answers stand in the first passage, often in words of their own."""
_BESIDE = 0.6
"""A sentence's worth beside one that matches: an answer often stands in the sentence after."""
_LISTED = 0.9
"""An item's worth where what leads to its list matches."""


def excerpts(question: str, evidence: Sequence[Evidence], scorer: SupportScorer, budget: int) -> dict[int, str]:
    """The text of each passage to show, by its number, at most `budget` tokens in all with their headers.

    Everything where it fits. Else the best sentences, in reading order; a passage of which none was chosen is
    left out. At least one sentence is always there, even where it alone is larger than the budget.
    """
    if sum(_header(passage) + count_tokens(passage.opened) for passage in evidence) <= budget:
        return {passage.n: passage.opened for passage in evidence}
    places = {passage.n: passage for passage in evidence}
    matches = {passage.n: scorer.matches(question, passage.n) for passage in evidence}
    leads = {n: _lead_ins(sentences) for n, sentences in matches.items()}
    chosen: dict[int, set[int]] = {}
    spent = 0
    for _, n, i in sorted(_ranked(evidence, matches, leads), key=lambda item: (-item[0], item[1], item[2])):
        wanted = {i, leads[n].get(i, i)} - chosen.get(n, set())
        cost = sum(count_tokens(matches[n][j].quote) for j in wanted) + (0 if n in chosen else _header(places[n]))
        if spent + cost > budget:
            if chosen:
                continue
            wanted = {i}
        chosen.setdefault(n, set()).update(wanted)
        spent += cost
    return {n: _joined(places[n], [matches[n][i] for i in sorted(picked)]) for n, picked in sorted(chosen.items())}


def _ranked(
    evidence: Sequence[Evidence], matches: Mapping[int, list[Support]], leads: Mapping[int, Mapping[int, int]]
) -> list[tuple[float, int, int]]:
    """Each sentence with its worth: by its own match, or by a share of its better neighbour's or its lead-in's."""
    ranked = []
    for rank, passage in enumerate(evidence):
        scores = [sentence.score for sentence in matches[passage.n]]
        for i, own in enumerate(scores):
            beside = max(scores[max(i - 1, 0) : i] + scores[i + 1 : i + 2], default=0.0)
            lead = leads[passage.n].get(i, i)
            worth = max(own, _BESIDE * beside, _LISTED * scores[lead])
            ranked.append((_PER_RANK**rank * (_ANYWAY + worth), passage.n, i))
    return ranked


def _lead_ins(sentences: Sequence[Support]) -> dict[int, int]:
    """For each item of a list the sentence that ends with a colon before it; neither says much alone."""
    leads: dict[int, int] = {}
    lead: int | None = None
    for i, sentence in enumerate(sentences):
        item = bool(ITEM.match(sentence.quote))
        if item and lead is not None:
            leads[i] = lead
        elif LEADS_IN.search(sentence.quote):
            lead = i
        elif not item:
            lead = None
    return leads


def _joined(passage: Evidence, sentences: Sequence[Support]) -> str:
    rows = table_rows(passage.opened)
    text, end = "", None
    for sentence in sentences:
        start = sentence.start - passage.origin
        between = passage.opened[end:start] if end is not None else ""
        text += (GAP if between.strip() else between) + rows.get(start, sentence.quote)
        end = sentence.end - passage.origin
    return text


def _header(passage: Evidence) -> int:
    return HEADER_TOKENS + count_tokens(" ".join((passage.title, *passage.heading)))


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
    """Build the request for an answer of a `style` to `question`, within `llm.context_tokens` less the answer's own.

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
    listed = "\n".join(f"[{n}] {escape_citations(escape(' '.join(quote.split())))}" for n, quote in near)
    values = {
        "question": escape(typed),
        "passages": passages,
        "closest": listed or "(none)",
        "sufficient": "unknown" if sufficient is None else f"{sufficient:.0%}",
    }
    rules = PromptMessage("system", system.text + house_part(house))
    messages = (rules, *history, PromptMessage("user", fill(form.text, values)))
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
