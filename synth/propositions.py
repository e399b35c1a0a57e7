"""Propositions: stand-alone sentences that a model wrote from the windows of documents, each tied to its source span.

A window is the stretch of a document that one request shows. Its borders fall between the pieces of which passages are
made: sentences, table rows, and lines of long code. The sentences of an answer are
aligned, checked and merged; what falls out is kept apart and counted. `reference` finds words that point at something a
sentence does not name ("it", "this form", "and by mail?"): it knows English, and treats other languages as
complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import regex
from pydantic import BaseModel, ConfigDict, Field

from index.documents import Document
from index.encoders import Encoder, Vectors
from index.passages import CountTokens, units
from synth.folder import read_rows
from synth.tasks import InvalidAnswer, Task, chat_prompt, demand_language
from text.languages import NAMES
from text.sanitize import escape
from text.sentences import sentences
from text.words import negations, numbers, stems, words

_WORD = regex.compile(r"[\p{L}\p{N}_’']+|[^\s\p{L}\p{N}_]")
_PRONOUNS = frozenset({"it", "its", "they", "them", "their", "theirs", "he", "him", "his", "she", "her", "hers"})
_DETERMINERS = frozenset({"this", "these", "those"})
# Time is no reference to what was said: "this year".
_TIMES = frozenset({"year", "month", "week", "day", "morning", "evening", "summer", "winter", "weekend", "time"})
# "those who …", "those available in …": said here which ones.
_RESOLVES = frozenset({"who", "whose", "that", "with", "of", "in", "on", "at", "from", "for", "listed", "available"})
# What a pronoun may stand after, in the same sentence, and still be resolved there.
_CLAUSE_STARTS = frozenset((
    ",", ";", ":", "if", "when", "whether", "that", "which", "who", "because", "before", "after", "until",
    "unless", "while", "once", "and", "but", "or", "so", "though", "although", "since", "to",
))  # fmt: skip
_PLACEHOLDER_IT = regex.compile(
    r"\b(?:is|was|does|would|will|if|that|make|makes|find) it "
    r"(?:\w+ )?(?:possible|necessary|required|important|better|safe|legal|illegal|allowed|okay|ok|true|mandatory|easy"
    r"|hard|recommended|easier|harder)\b"
    r"|\bdoes it (?:take|cost|mean|matter)\b(?=.*\b(?:to|if|when|that|for)\b)"
    r"|\bit(?:'s| is| was) (?:\w+ )?(?:possible|necessary|required|important|better|best|a good idea|your)\b"
    r"|\bit (?:takes?|costs?)\b.*\bto\b|\bit (?:might|will|would|does not|doesn['’]t) (?:cost|take|matter)\b",
    regex.IGNORECASE,
)
_OPENING = regex.compile(
    r"^\s*(?:and|but|or|so|also|then|what about|how about|what if not|why not|same)\b"
    r"|^\s*(?:why|how|when|where|who|how much|how many|how long|how so|since when|by whom|for whom|what else|who else"
    r"|anything else|really)\s*[?.!]*\s*$",
    regex.IGNORECASE,
)
_POINTING = regex.compile(
    r"\b(?:the same\s*[?.!]*$|the same (?:one|thing|applies|goes|holds|is true)\b|the (?:former|latter)\s*[?.!,]"
    r"|the other (?:one|ones|two)\b|the (?:first|second|third|last|next|other) one\b|that one\b|this one\b"
    r"|those ones\b|one of (?:them|those|these)\b|each of them\b|such an?\b|aforementioned\b|as above\b"
    r"|(?:for|about|of|with|in|on|by|after|before|without|from|like|does|do|did|is|was|has|can|could|why|how|if) that"
    r"(?=\s*[?.!,]|\s*$|\s+(?:mean|work|cost|take|apply|help|include|change|possible|required|needed|necessary|too"
    r"|also|case)\b))",
    regex.IGNORECASE,
)
_THERE = regex.compile(
    r"\b(?:from|in|over|go|get|out|work|up|apply) there\b|(?<!\b(?:is|are|was|were|be) )\bthere\s*[?.!]*\s*$",
    regex.IGNORECASE,
)
_QUOTED = regex.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
_FUNCTION = frozenset((
    "a", "an", "the", "what", "who", "whom", "whose", "which", "when", "where", "why", "how", "do", "does", "did",
    "is", "are", "was", "were", "be", "been", "can", "could", "will", "would", "should", "shall", "may", "might",
    "must", "have", "has", "had", "i", "you", "we", "my", "your", "our", "me", "us", "there", "of", "in", "on",
    "at", "by", "for", "with", "from", "about", "not", "any", "some", "no", "as", "than", "please", "tell",
))  # fmt: skip


def reference(text: str) -> str:
    """The first words of `text` that point outside it, empty where there are none."""
    plain = str(_QUOTED.sub(" X ", text))
    for pattern in (_OPENING, _POINTING, _THERE):
        if match := pattern.search(plain):
            return str(match.group()).strip()
    plain = str(_PLACEHOLDER_IT.sub(" ", plain))
    # "IT" is a department.
    tokens = ["x" if token == "IT" else str(token).casefold() for token in _WORD.findall(plain)]
    # Something is named before the pronoun, and a clause ends in between: "If I lose a card, how is it replaced?"
    named = clause = False
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in _DETERMINERS and following not in _TIMES and not (token == "those" and following in _RESOLVES):
            return f"{token} {following}".strip()
        if token in _PRONOUNS and not (named and clause):
            return token
        if token in _CLAUSE_STARTS:
            clause = clause or named
        elif token not in _FUNCTION and token not in _PRONOUNS and token[0].isalnum():
            named = True
            # "Can employees change their address": the owner stands before what is owned.
            if {"their", "its", "his", "her"}.intersection(tokens[place + 1 : place + 5]):
                clause = True
    return ""


WINDOW_TOKENS = 600
_FULL_ENOUGH = 0.6


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A stretch of one section: `document.text[start:end]`."""

    heading: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentWindow:
    """Content of one request: pieces in reading order, and the number of the window in its document."""

    document: Document
    number: int
    pieces: tuple[WindowPart, ...]

    @property
    def heading(self) -> tuple[str, ...]:
        """The heading path above everything in the window."""
        levels = zip(*(piece.heading for piece in self.pieces), strict=False)
        return tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels))

    @property
    def text(self) -> str:
        """The pieces' text; one with a deeper heading than the window's begins with that heading on a line."""
        shared = len(self.heading)
        parts: list[str] = []
        heading: tuple[str, ...] = self.heading
        for piece in self.pieces:
            if piece.heading != heading:
                if below := piece.heading[shared:]:
                    parts.append(f"## {' > '.join(below)}")
                heading = piece.heading
            parts.append(self.document.text[piece.start : piece.end])
        return "\n\n".join(parts)


def windows(document: Document, max_tokens: int, count_tokens: CountTokens) -> Iterator[DocumentWindow]:
    """The windows of a document, in order, none without words.

    Each counts at most `max_tokens` by `count_tokens`.
    """
    pieces: list[WindowPart] = []
    spent = number = 0
    for section in document.sections:
        parts = units(document.text, section, max_tokens, count_tokens)
        worded = [unit for unit in parts if any(map(str.isalnum, document.text[unit.start : unit.end]))]
        size = sum(unit.tokens for unit in worded)
        # A section that fits into a window of its own is not torn for a few words of the one before it.
        apart = spent + size > max_tokens and (spent >= _FULL_ENOUGH * max_tokens or size <= max_tokens)
        for place, unit in enumerate(worded):
            if pieces and (spent + unit.tokens > max_tokens or (apart and place == 0)):
                yield DocumentWindow(document, number, tuple(pieces))
                pieces, spent, number = [], 0, number + 1
            if pieces and pieces[-1].heading == section.heading and pieces[-1].start >= section.start:
                pieces[-1] = WindowPart(section.heading, pieces[-1].start, unit.end)
            else:
                pieces.append(WindowPart(section.heading, unit.start, unit.end))
            spent += unit.tokens
    if pieces:
        yield DocumentWindow(document, number, tuple(pieces))


class SourceSpan(BaseModel):
    """A stretch of a document that says what a proposition says; offsets count characters of its text."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Proposition(BaseModel):
    """A stand-alone sentence and where it comes from.

    `source` is the source span's text at the time of writing. `sources` are all places that say the same,
    the first one being `document_id`, `start`, `end`. `overlap` and `similarity` are the alignment's
    (0 to 1, and a cosine). `prompt` is the version of the prompt, `model` what wrote it.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    id: str = Field(alias="_id")
    document_id: str
    title: str
    heading: tuple[str, ...] = ()
    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    source: str
    sources: tuple[SourceSpan, ...] = ()
    overlap: float = 0.0
    similarity: float = 0.0
    prompt: str = ""
    model: str = ""

    @property
    def documents(self) -> tuple[str, ...]:
        """Every document that says it, the first source's first."""
        return tuple(dict.fromkeys((self.document_id, *(source.document_id for source in self.sources))))


def proposition_id(document_id: str, start: int, end: int, text: str) -> str:
    """An id made of what the proposition is: the same again for the same."""
    digest = hashlib.blake2b(digest_size=10)
    for part in (document_id, str(start), str(end), text):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\x00")
    return digest.hexdigest()


def read_propositions(path: Path) -> Iterator[Proposition]:
    """The propositions of a store, in its order. Raises BadStore naming a line that is none."""
    return read_rows(path, Proposition, "proposition", "; give the propositions.jsonl that `anaphora synth` wrote.")


LONGEST_RUN = 3
_GAIN = 0.12
_OVERLAP_WEIGHT = 0.7
"""Of overlap in the score; the rest is similarity's."""
MIN_OVERLAP = 0.5
MIN_SIMILARITY = 0.45
_SURE_OVERLAP = 0.8


@dataclass(frozen=True, slots=True)
class Span:
    """A sentence of a window: offsets into its document."""

    start: int
    end: int
    words: frozenset[str]
    numbers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Where a proposition comes from. `overlap` is the share of its content words found there."""

    start: int
    end: int
    overlap: float
    similarity: float


class WindowAligner:
    """Aligns propositions with the sentences of one window; the sentences are encoded once."""

    def __init__(self, window: DocumentWindow, encoder: Encoder) -> None:
        self._window = window
        self._encoder = encoder
        text = window.document.text
        self._spans: list[Span] = []
        for piece in window.pieces:
            for sentence in sentences(text[piece.start : piece.end]):
                start, end = piece.start + sentence.start, piece.start + sentence.end
                if words := frozenset(stems(text[start:end])):
                    self._spans.append(Span(start, end, words, frozenset(numbers(text[start:end]))))
        headings = (window.document.title, *(part for piece in window.pieces for part in piece.heading))
        self._known = frozenset(stems(" ".join(headings)))
        self._vectors = encoder.encode([text[span.start : span.end] for span in self._spans])

    def align(self, propositions: Sequence[str]) -> list[Aligned | None]:
        """The source span of each proposition, None where there is none."""
        if not propositions or not self._spans:
            return [None] * len(propositions)
        vectors = self._encoder.encode(propositions)
        return [self._one(text, vector) for text, vector in zip(propositions, vectors, strict=True)]

    def _one(self, text: str, vector: Vectors) -> Aligned | None:
        text_stems = frozenset(stems(text))
        if not text_stems:
            return None
        similarity = self._vectors @ vector
        overlaps = np.array([self._overlap(text_stems, span.words) for span in self._spans])
        first = last = int(np.argmax(_OVERLAP_WEIGHT * overlaps + (1 - _OVERLAP_WEIGHT) * similarity))
        overlap, figures = self._held(text_stems, first, last)
        while last - first + 1 < LONGEST_RUN:
            lacking = frozenset(numbers(text)) - figures
            runs = [run for run in ((first - 1, last), (first, last + 1)) if run[0] >= 0 and run[1] < len(self._spans)]
            held = {run: self._held(text_stems, *run) for run in runs}
            gains = [(share + bool(lacking & covered), run) for run, (share, covered) in held.items()]
            if not gains or max(gains)[0] < overlap + _GAIN:
                break
            first, last = max(gains)[1]
            overlap, figures = held[first, last]
        alike = float(similarity[first : last + 1].max())
        if overlap < MIN_OVERLAP or (overlap < _SURE_OVERLAP and alike < MIN_SIMILARITY):
            return None
        return Aligned(self._spans[first].start, self._spans[last].end, round(overlap, 3), round(alike, 3))

    def _held(self, stems: frozenset[str], first: int, last: int) -> tuple[float, frozenset[str]]:
        """The overlap with a run of sentences, and the numbers in them."""
        run = self._spans[first : last + 1]
        overlap = self._overlap(stems, frozenset[str]().union(*(span.words for span in run)))
        return overlap, frozenset[str]().union(*(span.numbers for span in run))

    def _overlap(self, stems: frozenset[str], words: frozenset[str]) -> float:
        """Return the share of the proposition's words that occur in the text; words that only title and headings have
        are left out of the count."""
        wanted = stems - (self._known - words)
        if not wanted:
            # Nothing beyond title and headings: no sentence is what it says.
            return 0.0
        return len(wanted & words) / len(wanted)


# A number that belongs to a name ("Form 1040", "HTTP 404") may come from anywhere the name may.
_NUMBERED_NAME = regex.compile(r"\b\p{Lu}[\p{L}\p{N}-]*[ \u00a0-]\p{Nd}[\p{Nd}.,]*")
_NAME = regex.compile(r"\b\p{Lu}[\p{L}\p{N}_]*(?:['’.-][\p{L}\p{N}_]+)*|`[^`\n]+`|\b\p{L}[\p{L}\p{N}]*_[\p{L}\p{N}_]+")
_CLAUSE = regex.compile(r"[,;:()!?]|\.(?=\s|$)|\b(?:but|and|or|unless|although|aber|und|oder|mais|et|ou|pero|y|o)\b")
_CLAUSE_WORDS = 3
_QUESTION = regex.compile(r"[?？؟]\W*$")
# Headings, items of lists and what was cut have no sign at their end that ends a sentence. Thai and its neighbours
# write none.
_ENDED = regex.compile(r"(?:[\p{STerm}…]|[\p{Thai}\p{Lao}\p{Khmer}])[\p{Pe}\p{Pf}\p{Pi}\"'`*_\s]*$")
# "The text describes …" speaks of the page, not of its matter.
_OF_THE_PAGE = regex.compile(
    r"(?:the|this) (?:text|passage|document|section|page|article|table) "
    r"(?:describes?|mentions?|discusses|explains?|provides|contains|states|lists|is about|talks about)\b",
    regex.IGNORECASE,
)
# As a fact it would stand in the prompt of the next step, beside those of other documents.
_ORDER = regex.compile(
    r"\b(?:answers?|reply|replies|respond|responses?)\b.{0,60}\b(?:in|into|only with) (?:\w+ )?"
    rf"(?:{'|'.join(NAMES.values())}|the words?)\b"
    r"|\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|prompts?)\b|\bsystem prompt\b",
    regex.IGNORECASE,
)
# What goes with a “not” and is gone without it: “does not expire”, “expires”.
_AUXILIARIES = frozenset({"do", "does", "did", "don", "doesn", "didn", "not", "no", "never", "cannot", "nor", "any"})


def refusal(proposition: str, window: DocumentWindow, aligned: Aligned) -> str:
    """Why a proposition is refused, empty where it may stay.

    `no statement` (a heading, a question, a fragment, a word about the page itself), `order` (it tells a model how to
    answer), `number`, `name`, `negation` or `lost negation`.
    """
    document = window.document
    source = document.text[aligned.start : aligned.end]
    headings = (document.title, *(part for piece in window.pieces for part in piece.heading))
    above = " ".join(headings)
    everything = f"{above}\n{window.text}"
    states = _ENDED.search(proposition) and not _QUESTION.search(proposition) and not _OF_THE_PAGE.match(proposition)
    if not states or words(proposition) in [words(heading) for heading in headings]:
        return "no statement"
    if _ORDER.search(proposition):
        return "order"
    named = numbers(" ".join(_NUMBERED_NAME.findall(proposition))) & numbers(everything)
    if numbers(proposition) - named - numbers(f"{source} {above}"):
        return "number"
    if _names(proposition) - set(words(everything)):
        return "name"
    if negations(proposition) > 0 and not negations(f"{source} {above}"):
        return "negation"
    if not negations(proposition) and _denied(proposition, source):
        return "lost negation"
    return ""


def _names(text: str) -> set[str]:
    """Words of names and code. The first word is capital anyway and counts only if it has a capital or sign within."""
    names: set[str] = set()
    for match in _NAME.finditer(text):
        name = match.group()
        if match.start() == 0 and not any(letter.isupper() or letter in "_`" for letter in name[1:]):
            continue
        names.update(words(name))
    return names


def _denied(proposition: str, source: str) -> bool:
    """Whether the source says all of this with a “not”."""
    plain_stems = _plain(proposition)
    for clause in _CLAUSE.split(source):
        if clause and negations(clause):
            denied = _plain(clause)
            if len(denied) >= _CLAUSE_WORDS and denied <= plain_stems:
                return True
    return False


def _plain(text: str) -> set[str]:
    """Words without what a “not” brings with it and without a final s."""
    return {word.rstrip("s") for word in words(text) if word not in _AUXILIARIES}


SIMILAR = 0.92
SHARED_WORDS = 0.75
_BLOCK = 1024
_CAPITALS = regex.compile(r"(?<!^)\b\p{Lu}[\p{L}\p{N}]*|`[^`]+`|\b[A-Z0-9]\b")


def merged(propositions: Sequence[Proposition], encoder: Encoder) -> list[Proposition]:
    """The propositions in order, each later near-duplicate given up for the first, which takes its sources."""
    if not propositions:
        return []
    vectors = encoder.encode([proposition.text for proposition in propositions])
    marks = [_marks(proposition.text) for proposition in propositions]
    contents = [frozenset(stems(proposition.text)) for proposition in propositions]
    stands_for = list(range(len(propositions)))
    for start in range(0, len(propositions), _BLOCK):
        similar = vectors[start : start + _BLOCK] @ vectors[: start + _BLOCK].T
        for row, column in zip(*np.nonzero(similar >= SIMILAR), strict=True):
            later, earlier = start + int(row), int(column)
            if earlier >= later or stands_for[later] != later or stands_for[earlier] != earlier:
                continue
            if marks[later] == marks[earlier] and shared(contents[later], contents[earlier]) >= SHARED_WORDS:
                stands_for[later] = earlier
    by_place: dict[int, Proposition] = {}
    for position, proposition in enumerate(propositions):
        first = stands_for[position]
        if first == position:
            by_place[position] = proposition
        else:
            sources = dict.fromkeys((*by_place[first].sources, *proposition.sources))
            by_place[first] = by_place[first].model_copy(update={"sources": tuple(sources)})
    return list(by_place.values())


def _marks(text: str) -> tuple[frozenset[str], frozenset[str], bool]:
    names = frozenset(name.casefold() for name in _CAPITALS.findall(text))
    return frozenset(numbers(text)), names, negations(text) > 0


def shared(first: frozenset[str], other: frozenset[str]) -> float:
    """Share of words two sentences have in common; 0 where each has one that the other lacks: another subject."""
    if not (first <= other or other <= first):
        return 0.0
    return min(len(first), len(other)) / max(len(first), len(other)) if first and other else 0.0


STEP = "propositions"
LONGEST = 400
"""Characters of a proposition; what is longer is no simple sentence."""
_SHORTEST_WORDS = 3
_TOLD_BY = 2_000
"""Characters of a document that its language is told by."""
_MOST = 80
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"propositions": {"type": "array", "maxItems": _MOST, "items": {"type": "string"}}},
    "required": ["propositions"],
    "additionalProperties": False,
}


def extraction(window: DocumentWindow, count_tokens: Callable[[str], int]) -> Task[tuple[str, ...]]:
    """The task of turning a window into sentences."""
    prompt = chat_prompt(STEP)
    text = escape(window.text)
    user = prompt.fill(
        title=_line(window.document.title) or "(none)", heading=_line(" > ".join(window.heading)) or "(none)", text=text
    )
    return Task(
        step=STEP,
        item=f"{window.document.id}, window {window.number + 1}",
        system=prompt.system,
        user=user,
        schema=SCHEMA,
        # Names are written out: the sentences may be longer than the text they come from.
        max_tokens=200 + 2 * count_tokens(text),
        read=lambda data: _read_in_language(data, window, text),
        mend=without_last,
    )


def _read_in_language(data: Any, window: DocumentWindow, text: str) -> tuple[str, ...]:
    """The sentences of an answer, in the window's or the document's language. Raises InvalidAnswer."""
    lines = read(data)
    demand_language(lines, text, window.document.text[:_TOLD_BY])
    return lines


def read(data: Any) -> tuple[str, ...]:
    """The sentences of an answer, each one line, none twice. Raises InvalidAnswer."""
    propositions = data.get("propositions")
    if not isinstance(propositions, list):
        raise InvalidAnswer('It needs a list "propositions".')
    if not all(isinstance(sentence, str) for sentence in propositions):
        raise InvalidAnswer('Every entry of "propositions" must be a string.')
    lines = (" ".join(escape(sentence).split()) for sentence in propositions[:_MOST])
    # Some scripts write no spaces.
    return tuple(
        dict.fromkeys(
            line
            for line in lines
            if len(line.split()) >= _SHORTEST_WORDS or (len(line) >= 2 * _SHORTEST_WORDS and not line.isascii())
        )
    )


def without_last(data: Any) -> Any:
    """An answer that was cut: the last sentence is half of one."""
    propositions = data.get("propositions")
    return {"propositions": propositions[:-1]} if isinstance(propositions, list) else data


def _line(text: str) -> str:
    return " ".join(escape(text).split())[:300]


class LeftOut(BaseModel):
    """A sentence of the model that became no proposition, and why.

    Reasons: `unaligned`, `reference` (it points at something it does not name), `no statement` (a heading or a
    question), `order`, `number`, `name`, `negation`, `lost negation`, `too long`.
    """

    model_config = ConfigDict(frozen=True)

    document_id: str
    window: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Built:
    """`written` counts sentences of the model; `kept` are in document order, near-duplicates merged."""

    written: int
    kept: list[Proposition]
    left_out: list[LeftOut]
    duplicates: int


def build(replies: Iterable[tuple[DocumentWindow, Sequence[str]]], encoder: Encoder, model: str) -> Built:
    """Propositions of windows and the sentences written about each; in the order given."""
    aligned: list[Proposition] = []
    left_out: list[LeftOut] = []
    written = 0
    for window, texts in replies:
        written += len(texts)
        if not texts:
            continue
        spans = WindowAligner(window, encoder).align(texts)
        for text, span in zip(texts, spans, strict=True):
            document = window.document
            reason = "too long" if len(text) > LONGEST else "unaligned"
            if span is not None and len(text) <= LONGEST:
                reason = "reference" if reference(text) else refusal(text, window, span)
            if reason or span is None:
                left_out.append(LeftOut(document_id=document.id, window=window.number, text=text, reason=reason))
                continue
            heading = next(
                (piece.heading for piece in window.pieces if piece.start <= span.start < piece.end), window.heading
            )
            aligned.append(
                Proposition(
                    id=proposition_id(document.id, span.start, span.end, text),
                    document_id=document.id,
                    title=document.title,
                    heading=heading,
                    text=text,
                    start=span.start,
                    end=span.end,
                    source=document.text[span.start : span.end],
                    sources=(SourceSpan(document_id=document.id, start=span.start, end=span.end),),
                    overlap=span.overlap,
                    similarity=span.similarity,
                    prompt=chat_prompt(STEP).version,
                    model=model,
                )
            )
    unique = merged(aligned, encoder)
    return Built(written, unique, left_out, len(aligned) - len(unique))
