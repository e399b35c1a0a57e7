"""The term rewriter: an encoder marks the words of the history that a follow-up leaves out.

After QuReTeC (Voskarides et al. 2020). It expands the question and writes no sentence; the same pass judges whether
the question needs its history at all. It runs on onnxruntime and needs no torch. The encoder reads the question, then
the history newest first; the same reading serves training. An ordinal ("the second one", "the latter", "option 3") is
resolved to its item of a list in the newest answers: numbered items in a line, list items and table rows of Markdown,
an enumeration in a sentence, or things defined one after another; English only.
"""

from __future__ import annotations

import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import regex

from rewriter.load import DESCRIPTION, Serving, verify
from rewriter.onnx_weights import TOKENIZER, read_tokenizer
from rewriter.protocol import Conversation, Message, Rewrite, RewriteGate, RunError, Term, probability
from text.modules import EXACT_BYTES
from text.words import FUNCTION_WORDS, stem, stems

if TYPE_CHECKING:
    from tokenizers import Tokenizer


__all__ = ["TermRewriter", "load"]


TYPES = 8
"""Kinds of text a token can belong to: the question; user and assistant, one, two and more turns back;
the question the conversation began with."""

_OPENING = 7
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_LONGEST_WORD = 32
# A history is cut before it is tokenised: no text of this length fits into the window anyway.
_CHARS_PER_TOKEN = 12


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """How many tokens are read: of the question, of all history, and of one message of it.

    Of a text that is too long the beginning is kept. The question that the conversation began with has its
    place reserved, and of the rest the newest messages are kept.
    """

    question: int = 64
    history: int = 176
    user: int = 48
    assistant: int = 96
    older: int = 40
    """An answer before the last one."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the history that could be appended.

    `message` is its message's place in the conversation, `[start, end)` its characters in that message's text,
    `[first, last)` its tokens in the reading.
    """

    text: str
    stem: str
    message: int
    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Token ids and types, equally long, and the words among them that the question does not have already."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    words: tuple[Word, ...]


class ConversationReader:
    """Reads conversations for an encoder with a BERT-like tokenizer; safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, window: TokenWindow = TokenWindow()) -> None:
        self._tokenizer = tokenizer
        self._window = window
        first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        if first is None or last is None:
            raise RunError("the tokenizer has no [CLS] and [SEP]: the term rewriter needs a BERT-like encoder")
        self._first, self._last = first, last

    @classmethod
    def open(cls, path: Path, window: TokenWindow = TokenWindow()) -> ConversationReader:
        """The reader of a `tokenizer.json`; raises RunError where it is missing or damaged."""
        tokenizer = read_tokenizer(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, window)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; a model with another number does not belong to this tokenizer."""
        return int(self._tokenizer.get_vocab_size())

    def read(self, conversation: Conversation, question: str) -> Reading:
        window = self._window
        question_stems = frozenset(stems(question))
        encoded = self._encode(question, window.question)
        ids = [self._first, *(token for token, _ in encoded), self._last]
        types = [0] * len(ids)
        words: list[Word] = []
        for index, kind, tokens in self._history(conversation):
            text = conversation.messages[index].text
            words += _words(text, [span for _, span in tokens], index, len(ids), question_stems)
            ids += [*(token for token, _ in tokens), self._last]
            types += [kind] * (len(tokens) + 1)
        return Reading(tuple(ids), tuple(types), tuple(words))

    def _history(self, conversation: Conversation) -> list[tuple[int, int, list[_Token]]]:
        """`(message, type, tokens)` of what is read of the history, newest first."""
        messages = conversation.messages
        opening = next((index for index, message in enumerate(messages) if message.role == "user"), None)
        begun = [] if opening is None else self._encode(messages[opening].text, self._window.user)
        room = self._window.history - len(begun)
        read: list[tuple[int, int, list[_Token]]] = []
        for index, kind in _newest_first(messages):
            if index == opening:
                read.append((index, kind if kind < _OPENING - 2 else _OPENING, begun))
            elif room > 0:
                tokens = self._encode(messages[index].text, min(room, self._longest(messages[index], kind)))
                room -= len(tokens)
                read.append((index, kind, tokens))
        return read

    def _longest(self, message: Message, kind: int) -> int:
        if message.role == "user":
            return self._window.user
        return self._window.assistant if kind == 2 else self._window.older

    def _encode(self, text: str, tokens: int) -> list[_Token]:
        encoded = self._tokenizer.encode(text[: tokens * _CHARS_PER_TOKEN], add_special_tokens=False)
        return list(zip(encoded.ids[:tokens], encoded.offsets[:tokens], strict=True))


_Token = tuple[int, tuple[int, int]]


def _newest_first(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Every message's index and type. A turn is a user's message with the assistant's messages that follow it."""
    back, spans = 1, list[tuple[int, int]]()
    for index in range(len(messages) - 1, -1, -1):
        role = messages[index].role
        spans.append((index, 2 * min(back, 3) - (1 if role == "user" else 0)))
        if role == "user":
            back += 1
    return spans


def _words(
    text: str, spans: Sequence[tuple[int, int]], message: int, offset: int, question_stems: frozenset[str]
) -> list[Word]:
    """The words that are read in full, carry content, and are not in the question."""
    words: list[Word] = []
    position = 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        if not spans or start >= spans[-1][1]:
            break
        while position < len(spans) and spans[position][1] <= start:
            position += 1
        first = position
        while position < len(spans) and spans[position][0] < end:
            position += 1
        if first == position or spans[position - 1][1] < end or end - start > _LONGEST_WORD:
            continue
        plain = unicodedata.normalize("NFKC", match.group()).casefold()
        if plain in FUNCTION_WORDS:
            continue
        stemmed = stem(plain)
        if stemmed not in question_stems:
            words.append(Word(match.group(), stemmed, message, start, end, offset + first, offset + position))
    return words


DEPTH = 3
"""How many answers are looked at."""

MOST_CHARS = 8000
"""How much of an answer is looked at."""

LONGEST = 12
"""Most words of an item that are taken; one in a sentence has no more."""

_MARKS_BONUS, _AGE_PENALTY = 0.2, 0.2
"""How much a list counts for its marks, and less for each answer after its own."""

_NUMBERS = {
    word: number
    for number, words in {
        1: "first 1st former one 1",
        2: "second 2nd two 2",
        3: "third 3rd three 3",
        4: "fourth 4th four 4",
        5: "fifth 5th five 5",
        6: "sixth 6th six 6",
        7: "7",
        8: "8",
        9: "9",
        -1: "last latter final",
    }.items()
    for word in words.split()
}

_COUNTED = (
    "one|option|way|point|step|item|method|choice|variant|case|part|kind|type|thing|entry|alternative|possibility|"
    "reason|bullet|mode|path|route|form|tool|command|flag|setting|field|file"
)

_ORDINAL = regex.compile(
    rf"""
    (?:^|\b(?:the|that|your|those|these|its|very)\s+|^\W*(?:and|or|ok|so|then|for|with)\s+|[,.;:?!]\s+)
    (?P<word>former|latter|first|second|third|fourth|fifth|sixth|last|final|1st|2nd|3rd|4th|5th|6th)\b
    (?:\s+(?:of\s+(?:these|those|them|the|your)|(?:{_COUNTED})s?|two)\b
      |\s*(?:[,.;:?!)]|$)
      |\s+(?:is|are|was|can|does|do|did|has|would|will|should|might|could|sounds?|looks?|seems?|works?|vs|versus|instead
        |please|again|then|too|contains?|says?|means?|needs?|in|for|on|with|if|what|how|where|when|who|which|i|we)\b)
    |\bthe\s+(?P<latter>latter)\b
    |(?:^\W*|\b(?:the|that|your|those|these)\s+)(?P<nth>second|third|fourth|fifth|sixth|2nd|3rd|4th|5th|middle)\b
      (?!\s+(?:time|day|week|month|year|half|person|party|language)s?\b)
    |^\W*(?:(?:and|explain|ok|so|then)\s+)*(?:no\s+)?(?P<digit>[1-9])\s*(?:[:,?!)]|$)
    |\b(?:options?|numbers?|no\.|points?|steps?|items?|ways?|methods?|choices?|variants?)\s*\#?
      (?P<number>[1-9]|one|two|three|four|five|six)\b
    """,
    regex.IGNORECASE | regex.VERBOSE,
)

_ELSEWHERE = regex.compile(
    r"\b(?:asked|began|at first|named|gave|told|started|mentioned|question|back to|earlier"
    r"|last (?:on|point|question|wish|thing)|last one,? (?:about|on|back|my))\b",
    regex.IGNORECASE,
)
"""Words with which an ordinal counts through the conversation, or ends it, and names no item of a list."""

_ENDING = regex.compile(r"[\s,;]*+(?:\b(?:and|or)\s*)?$", regex.IGNORECASE)
_BLANK_LINES = regex.compile(r"\s*\n\s*\n\s*+")
_SPACES = regex.compile(r"[^\S\n]++")
_MARK = regex.compile(r"(?:^|(?<=[\s(:;,.]))\(?([1-9]|[a-e])[).](?=\s)")
_LIST_ITEM = regex.compile(r"(?P<indent>[ \t]*)(?:[-*•]|\d{1,2}[.)])[ \t]+(?P<text>\S.*)")
_TABLE_ROW = regex.compile(r"\s*\|\s*(?P<cell>[^|\n]*[^|\s])\s*\|")
_TABLE_RULE = regex.compile(r"\s*+\|(?:\s*+:?-++:?\s*+\|)++\s*+")
_SENTENCE = regex.compile(r"[^.!?\n;]+(?:[.](?=\S)[^.!?\n;]*)*")
_DEFINITION = regex.compile(r"\s*An?\s+(?P<name>[^\s,]+(?:\s[^\s,]+){0,3}?)\s+(?:is|are)\b")
_SENTENCE_END = regex.compile(r"[.!?](?:\s|$)|\n\n")
_BETWEEN = regex.compile(
    r"\s*,\s*(?:and|or|also|plus|as\ well\ as|nor)\s+|\s*,\s+|\s+(?:and|or|plus)\s+", regex.IGNORECASE
)


def resolve(conversation: Conversation, question: str, likely: Mapping[str, float]) -> str | None:
    """Return the item that the question's ordinal names, as written in its list, cut to `LONGEST` words.

    Of the lists in the newest answers the one counts whose item is likeliest by the mean probability of its stems in
    `likely`; marked lists are preferred, and newer ones. None where the question has no ordinal, or no list is long
    enough for it.

    >>> from rewriter.protocol import Message
    >>> answer = Message("assistant", "There are three kinds: counters, gauges and histograms.")
    >>> resolve(Conversation((answer,)), "and the second one?", {"gaug": 0.9})
    'gauges'
    """
    ordinal = _ORDINAL.search(question)
    if ordinal is None or _ELSEWHERE.search(question):
        return None
    word = next(filter(None, ordinal.groupdict().values())).lower()
    answers = [message.text for message in reversed(conversation.messages) if message.role == "assistant"]
    found: list[tuple[float, str]] = []
    for back, answer in enumerate(answers[:DEPTH]):
        for items, marked in reversed(list(enumerations(answer[:MOST_CHARS]))):
            if item := _item(word, items):
                named = frozenset(stems(item))
                value = sum(likely.get(stem, 0.0) for stem in named) / max(len(named), 1)
                found.append((value + (_MARKS_BONUS if marked else 0.0) - _AGE_PENALTY * back, item))
    best = max(found, key=lambda scored: scored[0], default=(0.0, ""))[1]
    return " ".join(best.split()[:LONGEST]) or None


def _item(word: str, items: Sequence[str]) -> str:
    """Return the item of a list that an ordinal names, empty where the list has none such."""
    if word == "middle":
        return items[len(items) // 2] if len(items) % 2 else ""
    number = _NUMBERS[word]
    if abs(number) > len(items) or (word in ("former", "latter") and len(items) != 2):
        return ""
    return items[number - 1 if number > 0 else number]


def enumerations(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the lists of a text, each with two items or more, and whether its items are marked (`1)`, `(a)`, `-`).

    Where items are marked, only these are lists, and the first cells of a table's rows; else enumerations in sentences,
    and things that sentences in a row define ("A counter is … A gauge is …").
    """
    listed = list(_in_lines(text))
    text = _SPACES.sub(" ", _BLANK_LINES.sub("\n\n", text))
    if marked := [*_marked(text), *listed]:
        yield from ((items, True) for items in marked)
    else:
        yield from ((items, False) for items in (*_in_sentences(text), *_defined(text)))


def _marked(text: str) -> Iterator[list[str]]:
    run: list[regex.Match[str]] = []
    for mark in [*_MARK.finditer(text), None]:
        value = 0 if mark is None else int(mark[1]) if mark[1].isdigit() else ord(mark[1]) - ord("a") + 1
        if mark is not None and value == len(run) + 1:
            run.append(mark)
            continue
        if len(run) > 1:
            ended = _SENTENCE_END.search(text, run[-1].end())
            ends = [*(after.start() for after in run[1:]), ended.start() if ended else len(text)]
            yield [_ENDING.sub("", text[item.end() : end]).strip() for item, end in zip(run, ends, strict=True)]
        run = [mark] if mark is not None and value == 1 else []


def _in_lines(text: str) -> Iterator[list[str]]:
    """Lists and tables in Markdown; items within an item are not counted."""
    items: list[str] = []
    indent, table = "", False
    for line in [*text.split("\n"), "."]:
        if item := _LIST_ITEM.fullmatch(line):
            if not items or table:
                items, indent, table = [], item["indent"], False
            if item["indent"] == indent:
                items.append(item["text"].strip())
        elif _TABLE_RULE.fullmatch(line):
            items, table = [], True
        elif table and (row := _TABLE_ROW.match(line)):
            items.append(row["cell"])
        elif line.strip() and (table or not line[0].isspace()):
            if len(items) > 1:
                yield items
            items, table = [], False


def _in_sentences(text: str) -> Iterator[list[str]]:
    for sentence in _SENTENCE.findall(text):
        listed = sentence.rpartition(": ")[2]
        gaps = list(_BETWEEN.finditer(listed))
        if any(gap.group().strip(" ,") for gap in gaps):
            starts, ends = [0, *(gap.end() for gap in gaps)], [*(gap.start() for gap in gaps), len(listed)]
            items = [listed[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            if all(0 < len(item.split()) <= LONGEST for item in items):
                yield items


def _defined(text: str) -> Iterator[list[str]]:
    run: list[str] = []
    for sentence in [*_SENTENCE.findall(text), ""]:
        if defined := _DEFINITION.match(sentence):
            run.append(defined["name"])
            continue
        if len(run) > 1:
            yield run
        run = []


MODEL = "model.onnx"
INPUTS, OUTPUTS = ("ids", "types", "mask"), ("terms", "gate")
MOST = 12
"""Stems that are appended at most, the likeliest first."""

_JOINED = regex.compile(r"[\s\-‐–_/.'’&+]{1,2}")


@dataclass(frozen=True, slots=True)
class _WordRun:
    """Marked words that stand side by side."""

    message: int
    words: tuple[Word, ...]

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)


def choose(
    conversation: Conversation, reading: Reading, probabilities: Sequence[float], threshold: float, most: int = MOST
) -> tuple[Term, ...]:
    """The terms to append, in the order in which they appear in the conversation.

    A stem counts by the likeliest of its words. Words that stand side by side stay one term, so that names
    keep their form; each stem is appended once, as part of the longest such run, the newest among equals.
    A term's score is the mean probability of its stems.
    """
    best = _by_stem(reading, probabilities)
    marked = sorted((stem for stem in best if best[stem] >= threshold), key=best.__getitem__, reverse=True)[:most]
    open_stems = set(marked)
    runs = _runs(conversation, [word for word in reading.words if word.stem in open_stems])
    chosen: list[_WordRun] = []
    while open_stems:
        longest = max(runs, key=lambda run: (len(run.stems & open_stems), -len(run.words), run.message))
        chosen.append(_trimmed(longest, open_stems))
        open_stems -= longest.stems
    chosen.sort(key=lambda run: (run.message, run.words[0].start))
    return tuple(
        Term(
            conversation.messages[run.message].text[run.words[0].start : run.words[-1].end],
            round(sum(best[word.stem] for word in run.words) / len(run.words), 4),
        )
        for run in chosen
    )


def _by_stem(reading: Reading, probabilities: Sequence[float]) -> dict[str, float]:
    """The probability of each stem: that of the likeliest of its words."""
    best: dict[str, float] = {}
    for word, chance in zip(reading.words, probabilities, strict=True):
        best[word.stem] = max(best.get(word.stem, 0.0), float(chance))
    return best


def _runs(conversation: Conversation, words: Sequence[Word]) -> list[_WordRun]:
    runs: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.message, word.start)):
        before = runs[-1][-1] if runs else None
        if before is not None and before.message == word.message:
            between = conversation.messages[word.message].text[before.end : word.start]
            if _JOINED.fullmatch(between) and ". " not in between:
                runs[-1].append(word)
                continue
        runs.append([word])
    return [_WordRun(run[0].message, tuple(run)) for run in runs]


def _trimmed(run: _WordRun, wanted: set[str]) -> _WordRun:
    """The run without the words at its ends that another term has already."""
    words = list(run.words)
    while words[0].stem not in wanted:
        words.pop(0)
    while words[-1].stem not in wanted:
        words.pop()
    return _WordRun(run.message, tuple(words))


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Logits: of the reading's words `(words,)`, each the mean over its tokens, and that history is needed."""

    words: Floats
    gate: float


class TermScorer:
    """A model's file, opened; safe to call from several threads at once. Raises RunError where it is damaged."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        if not path.is_file():
            raise RunError(f"{path} is missing: train or copy the rewriter again")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Spinning wins microseconds and takes whole cores from the engine that writes the answer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry(*EXACT_BYTES)
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the library raises bare exceptions of its own
            raise RunError(f"{path} cannot be opened ({error}): train or copy the rewriter again") from error
        self._options = onnxruntime.RunOptions
        inputs, outputs = ({item.name for item in of()} for of in (self._session.get_inputs, self._session.get_outputs))
        if (inputs, outputs) != (set(INPUTS), set(OUTPUTS)):
            raise RunError(f"{path} is no model of a term rewriter: train or copy the rewriter again")
        try:
            # The last token of the tokenizer's vocabulary: one too few in the model, and they do not fit.
            self.score(Reading((vocabulary - 1,), (TYPES - 1,), ()))
        except RunError as error:
            raise RunError(f"{path} and its tokenizer do not belong together ({error})") from error

    def score(self, reading: Reading, seconds: float = 60.0) -> Scores:
        """The logits of a reading; raises RunError when the model fails or takes longer than `seconds`."""
        options, late = self._options(), threading.Event()

        def end() -> None:
            late.set()
            options.terminate = True

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        rows = (reading.ids, reading.types, (1,) * len(reading.ids))
        feed = {name: np.array([row], np.int64) for name, row in zip(INPUTS, rows, strict=True)}
        try:
            [tokens], gate = self._session.run(list(OUTPUTS), feed, options)
        except Exception as error:  # the library raises bare exceptions of its own
            if late.is_set():
                raise RunError(f"marking terms took longer than {seconds:g} s") from error
            raise RunError(f"the term model failed: {error}") from error
        finally:
            timer.cancel()
        tokens = np.asarray(tokens, np.float64)
        means = [tokens[word.first : word.last].mean() for word in reading.words]
        return Scores(np.array(means, np.float64), float(np.ravel(gate)[0]))


class TermRewriter:
    """Expands a question by words of its history that it leaves out; writes no sentence.

    Where the gate opens, the item of a list that the question names is appended, else each word from probability
    `threshold` on.
    `history_probability` of its rewrites is calibrated. Below the gate's threshold a question is kept, with the
    gate's certainty as confidence. Raises RunError where the folder's files are missing or damaged.
    """

    def __init__(self, folder: Path, gate: RewriteGate, threshold: float, seconds: float = 2.0) -> None:
        self._reader = ConversationReader.open(folder / TOKENIZER)
        self._scorer = TermScorer(folder / MODEL, self._reader.vocabulary)
        self._gate = gate
        self._threshold = threshold
        self._seconds = seconds

    @property
    def name(self) -> str:
        return "terms"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """The question with the terms it leaves out; never raises."""
        if not conversation:
            return Rewrite(question, "keep", confidence=1.0, history_probability=0.0)
        started = time.perf_counter()
        reading = self._reader.read(conversation, question)
        try:
            scores = self._scorer.score(reading, self._seconds)
        except RunError as error:
            return Rewrite(question, "failed", seconds=time.perf_counter() - started, reason=f"{error}.")
        needs = self._gate.probability(scores.gate)
        terms: tuple[Term, ...] = ()
        if needs >= self._gate.threshold:
            chances = [probability(logit) for logit in scores.words]
            # Of a list the item that the question names says more than marked words, which come from all of its items.
            item = resolve(conversation, question, _by_stem(reading, chances))
            terms = (Term(item, 1.0),) if item else choose(conversation, reading, chances, self._threshold)
        result = Rewrite(question, "keep", 1 - needs, seconds=time.perf_counter() - started, history_probability=needs)
        if not terms:
            return result
        text = " ".join([question, *(term.text for term in terms)])
        return replace(result, text=text, decision="expand", confidence=needs, expansion=terms)


def load(folder: Path, description: Mapping[str, Any], serving: Serving) -> TermRewriter:
    """The term rewriter of a finished run; raises RunError where its files are missing or damaged."""
    verify(folder, description)
    try:
        gate, threshold = RewriteGate.of(description), float(description["threshold"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{folder / DESCRIPTION} lacks threshold or gate ({error!r}): train or copy the rewriter again"
        ) from error
    if serving.threshold is not None:
        gate = replace(gate, threshold=serving.threshold)
    return TermRewriter(folder, gate, threshold, serving.timeout_seconds)
