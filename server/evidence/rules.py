"""What a quote leaves open and code can settle from its document: acronyms, first person, terms that it defines.

Also where an answer is put (`anchor`) and what of it (`addition`), whoever gave it. Works for English; in other
languages it finds acronyms and little else. Long forms are found as Schwartz and Hearst (2003) do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from server.evidence.guard import FLOAT_REFERENCE, LONGEST, MARKER
from server.evidence.source import SourceQuote
from server.evidence.spans import Edit, place_behind, untouchable
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, split, stemmed, stems, words

DEFINITION_WORDS = 24

_ACRONYM = regex.compile(
    r"(?<![\p{L}\p{N}\-_/.])(?=\S*\p{Lu}\S*\p{Lu})\p{L}[\p{L}\p{N}&]{1,9}(?:-\p{Lu}+)?(?![\p{L}\p{N}])"
)
_IN_BRACKETS = regex.compile(r"([^()\n]{3,160})\(\s*([^()]{2,12}?)s?\s*(?:[,;][^()]*)?\)")
_LONG_IN_BRACKETS = regex.compile(r"(?<![\p{L}\p{N}])([\p{L}\p{N}&\-]{2,10}?)s?\s*\(\s*([^()\d]{5,120}?)\s*\)")
_FIRST_PERSON = regex.compile(r"(?<![\p{L}\p{N}'’])(?:we|our|us)(?![\p{L}\p{N}'’])", regex.IGNORECASE)
_THIS_PAPER = regex.compile(
    r"\b(?:this|the present|our) (?:paper|work|article|study|thesis|survey|guide|page|document|manual|chapter)\b",
    regex.IGNORECASE,
)
_DEFINES = (
    r"(?:\s*\([^()]*\))?(?:,?\s+(?:is|are|was|were)\s+(?=(?:an?|the|our|one of|based|designed|used|introduced)\b)"
    r"|\s+(?:refers? to|means|stands for|denotes|consists of|contains|comprises|is defined as|is called)\s+"
    r"|,\s+(?=(?:an?|which (?:is|are))\b))"
)
_ECHO = regex.compile(
    r"^(?:the |their |its |his |this |these |that |a |an )?(?:[^\s,.;:]+\s+){1,6}?"
    r"(?:stands? for|refers? to|means|denotes|is defined as|are defined as|is called|is|are|was|were)\s+",
    regex.IGNORECASE,
)
_WHAT_IT_MEANS = regex.compile(
    r"^(?:it|they|this|these|that|here)\s+(?:is|are|was|were|refers? to|means|stands? for)\s+", regex.I
)
_NO_TERM = regex.compile(r"we|our|this|in|figs?|figures?|tables?|sections?|\w*ref\d+|inlineform\d*", regex.IGNORECASE)
_QUOTED = regex.compile(r"[\"“”'‘’`]([^\"“”`]{2,60})[\"“”'‘’`]")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-][\p{L}\p{M}\p{N}_]+)*")


@dataclass(frozen=True, slots=True)
class QuoteFinding:
    """A question and its answer from the document: where it goes (a place in the quote), what is put there, and the
    words that say so."""

    question: str
    answer: str
    passage: str
    at: int
    addition: str
    evidence: str


@lru_cache(maxsize=4096)
def long_forms(text: str) -> dict[str, str]:
    """Acronyms that a text expands, with their long forms as they stand there."""
    found: dict[str, str] = {}
    for match in _IN_BRACKETS.finditer(text):
        short = match[2].strip()
        if _is_short(short) and (long := _matching(short, match[1])):
            found.setdefault(short, long)
    for match in _LONG_IN_BRACKETS.finditer(text):
        short, inside = match[1], match[2].strip()
        if _is_short(short) and (long := _matching(short, inside)) and len(long) >= 0.8 * len(inside):
            found.setdefault(short, long)
    return found


def _is_short(text: str) -> bool:
    return 2 <= len(text) <= 10 and len(text.split()) <= 2 and text[0].isalnum() and any(c.isupper() for c in text)


def _matching(short: str, before: str) -> str:
    """The end of `before` that `short` abbreviates (Schwartz and Hearst's algorithm); empty where it does not."""
    tail = before.rstrip().split()
    before = " ".join(tail[-min(len(short) + 5, 2 * len(short)) :])
    s, at = len(short) - 1, len(before) - 1
    while s >= 0:
        char = short[s].casefold()
        if not char.isalnum():
            s -= 1
            continue
        while at >= 0 and (before[at].casefold() != char or (s == 0 and at > 0 and before[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return ""
        at, s = at - 1, s - 1
    start = before.rfind(" ", 0, at + 2) + 1
    long = before[start:].strip(" ,;:-–\"'“”")
    parts = [part for part in regex.split(r"[\s\-/]+", long) if part]
    if len(long) <= len(short) or short.casefold() in (part.casefold() for part in parts):
        return ""
    # A letter inside a word is a match by chance more often than not: most must begin a word, and few words go unused.
    letters = [char.casefold() for char in short if char.isalpha()]
    begun = _in_order(letters, [part[0].casefold() for part in parts])
    return long if begun >= max(2, len(letters) * 0.6) or (len(parts) == 1 and len(letters) > 2) else ""


def _in_order(letters: Sequence[str], initials: Sequence[str]) -> int:
    """How many of the letters are found among the initials, in their order."""
    at = found = 0
    for letter in letters:
        if letter in initials[at:]:
            at += initials[at:].index(letter) + 1
            found += 1
    return found


def find(quote: SourceQuote) -> list[QuoteFinding]:
    """What the rules settle, in the order of the quote; at most one addition in a place."""
    taken: dict[int, QuoteFinding] = {}
    for one in (*_acronyms(quote), *_first_person(quote), *_definitions(quote)):
        taken.setdefault(one.at, one)
    return sorted(taken.values(), key=lambda one: one.at)


def _texts(quote: SourceQuote) -> Iterator[tuple[str, str]]:
    """What is read of the document, with the passage's id: lead and paragraph first."""
    yield "", quote.lead
    yield "", quote.paragraph
    for passage in quote.passages:
        yield passage.id, passage.text


def _acronyms(quote: SourceQuote) -> Iterator[QuoteFinding]:
    here = long_forms(quote.snippet)
    known: dict[str, tuple[str, str, str]] = {}
    for passage, text in _texts(quote):
        for short, long in long_forms(text).items():
            known.setdefault(short, (long, passage, text))
    said = quote.snippet.casefold()
    done = set[str]()
    for match in _ACRONYM.finditer(quote.snippet):
        short = match.group() if match.group() in known else match.group().removesuffix("s")
        if short in here or short in done or short not in known:
            continue
        done.add(short)
        long, passage, text = known[short]
        at = place_behind(quote.snippet, match.end())
        if at is not None and long.casefold() not in said:
            yield QuoteFinding(f"What does {short} stand for?", long, passage, at, long, text)


def _first_person(quote: SourceQuote) -> Iterator[QuoteFinding]:
    title = " ".join(quote.title.split())
    if not words(title) or title.casefold() in quote.snippet.casefold():
        return
    open_places = untouchable(quote.snippet)
    for pattern, question, addition in (
        (_THIS_PAPER, "Which text is this?", f"“{title}”"),
        (_FIRST_PERSON, "Who is speaking?", f"the authors of “{title}”"),
    ):
        for match in pattern.finditer(quote.snippet):
            at = place_behind(quote.snippet, match.end())
            if at is None or any(start < match.end() <= end for start, end in open_places):
                continue
            shortened = addition if len(addition.split()) <= LONGEST else " ".join(addition.split()[:LONGEST])
            yield QuoteFinding(question, title, "", at, shortened, f"the authors of “{title}”")
            return


def _definitions(quote: SourceQuote) -> Iterator[QuoteFinding]:
    for term, end in _terms(quote.snippet):
        pattern = regex.compile(rf"(?<![\p{{L}}\p{{N}}]){regex.escape(term)}{_DEFINES}")
        if pattern.search(quote.snippet):
            continue
        for passage, text in _texts(quote):
            if not pattern.search(text):
                continue
            found = next(
                (_defined(pattern, text[a:b], term) for a, b in sentence_spans(text) if term in text[a:b]), None
            )
            if found and not set(stems(found[0])) <= set(stems(quote.snippet)):
                at = place_behind(quote.snippet, end)
                if at is not None:
                    yield QuoteFinding(f"What is {term}?", found[0], passage, at, found[0], found[1])
                break


def _defined(pattern: regex.Pattern[str], sentence: str, term: str) -> tuple[str, str] | None:
    match = pattern.search(sentence)
    if match is None:
        return None
    said = sentence[match.end() :].strip().rstrip(".").strip()
    said = regex.sub(r"^which (?:is|are) ", "", regex.sub(r"\s*\[[^\[\]]*\]|\s*\([^()]*\)", "", said))
    cut = shortened(said, DEFINITION_WORDS)
    return (cut, sentence) if len(stems(cut)) >= 2 else None


def _terms(snippet: str) -> Iterator[tuple[str, int]]:
    """Names in a quote that a document may define: not at the beginning of a sentence, each once."""
    starts = {start for start, _ in sentence_spans(snippet)}
    seen = set[str]()
    for match in regex.finditer(r"(?:`([^`\n]{2,40})`|\b\p{Lu}[\p{L}\p{N}\-]*\p{L}[\p{L}\p{N}\-]*\b)", snippet):
        term = match[1] or match.group()
        common = term.casefold() in FUNCTION_WORDS or _NO_TERM.fullmatch(term)
        distinct = any(char.isupper() for char in term[1:]) or match[1]
        if term in seen or common or (match.start() in starts and not distinct):
            continue
        seen.add(term)
        yield term, match.end()


def shortened(text: str, longest: int = LONGEST) -> str:
    """The beginning of `text` of at most so many words: whole sentences, else whole clauses, else words."""
    plain = " ".join(text.split())
    if len(plain.split()) <= longest:
        return plain
    kept = ""
    for start, end in sentence_spans(plain):
        if len(plain[:end].split()) > longest:
            break
        kept = plain[:end] if start >= 0 else kept
    if not kept:
        head = " ".join(plain.split()[:longest])
        clause = regex.match(r".{20,}(?=[,;:])", head, regex.DOTALL)
        kept = clause.group() if clause else head
    return kept.rstrip(" ,;:")


def anchor(snippet: str, question: str, answer: str = "") -> int | None:
    """Where an answer goes: behind the words of the quote that the question asks about; None where it may not.

    That is the longest run of the question's words in the quote, a quoted term before all; without a common word of
    content the end of the quote's last sentence.
    """
    for match in _QUOTED.finditer(question):
        found = regex.search(rf"(?<!\w){regex.escape(match[1].strip(' ?.,'))}(?!\w)", snippet, regex.IGNORECASE)
        if found:
            return place_behind(snippet, found.end())
    said = list(_WORD.finditer(snippet))
    here = _folded(match.group() for match in said)
    asked = _folded(match.group() for match in _WORD.finditer(question))
    best, where = (0, 0), None
    for i in range(len(here)):
        for j in range(len(asked)):
            length = 0
            while i + length < len(here) and j + length < len(asked) and here[i + length] == asked[j + length]:
                length += 1
            # A run is worth its words of content; it ends with one.
            while length and not _content(here[i + length - 1]):
                length -= 1
            worth = (sum(_content(word) for word in here[i : i + length]), length)
            if worth > best:
                best, where = worth, said[i + length - 1].end()
    if where is None:
        spans = sentence_spans(snippet)
        last = [match.end() for match in said if not spans or match.end() <= spans[-1][1]]
        where = last[-1] if last else None
    return None if where is None else place_behind(snippet, where)


def _folded(found: Iterable[str]) -> list[str]:
    """Stems of words, one each; function words as they are."""
    return stemmed(["".join(part for _, parts in split(word) for part in parts) or word for word in found])


def _content(word: str) -> bool:
    return word not in FUNCTION_WORDS and word not in ("author", "paper", "refer", "mean", "stand", "use")


def addition(snippet: str, answer: str, at: int | None = None) -> str:
    """What of an answer is put in brackets at a place: without the question's echo (`X stands for …`), the words it
    stands behind, brackets and full stop."""
    text = _CITED.sub("", answer).replace("[", "(").replace("]", ")")
    text = regex.sub(r"\s+([.,;:)])", r"\1", " ".join(text.split()))
    echo = _WHAT_IT_MEANS.match(text) or _ECHO.match(text)
    if echo and (_WHAT_IT_MEANS.match(text) or set(stems(echo.group())) <= set(stems(snippet)) | set(_VERBS)):
        text = text[echo.end() :]
    before = [match.group().casefold() for match in _WORD.finditer(snippet[:at])][-4:] if at else []
    begun = _WORD.findall(text.casefold())
    skip = begun[:1] in (["the"], ["this"], ["their"])
    for length in range(len(before), 0, -1):
        same = before[-length:] == begun[skip : skip + length] and _content(before[-length])
        if same and len(begun) > skip + length:
            text = text[list(_WORD.finditer(text))[skip + length].start() :]
            break
    return shortened(text).rstrip(" .;:,")


_CITED = regex.compile(
    r"\s*\((?:[^()]*\bet al\b[^()]*|[^()]*\b(?:19|20)\d\d[a-z]?)\)|\s*\[\d[\d,\s–-]*\]"
    r"|\s*\b(?:BIBREF|FIGREF|TABREF)\d+(?:\s*,\s*BIBREF\d+)*"
)
_VERBS = tuple(stems("stands refers means denotes defined called stand refer mean author"))


def removals(snippet: str) -> list[Edit]:
    """What goes where a sentence leaves its page: a discourse marker it begins with, figure and table references."""
    found = list[Edit]()
    begun = MARKER.match(snippet)
    if begun and begun.end() < len(snippet) and ("," in begun.group() or begun.group().casefold().strip() in _ALONE):
        found.append(Edit(begun.start(), begun.end()))
    found += [
        Edit(*match.span())
        for match in FLOAT_REFERENCE.finditer(snippet)
        if match.start() >= (begun.end() if found and begun else 0)
    ]
    return found


_ALONE = frozenset(("however", "thus", "therefore", "moreover", "furthermore", "hence", "but", "and"))


def insertions(snippet: str, findings: Sequence[QuoteFinding]) -> list[Edit]:
    """The edits that put each finding behind its place, and take out what may go."""
    gone = removals(snippet)
    edits = [Edit(one.at, one.at, one.addition) for one in findings]
    free = [edit for edit in edits if not any(cut.start < edit.start < cut.end for cut in gone)]
    return [*gone, *free]
