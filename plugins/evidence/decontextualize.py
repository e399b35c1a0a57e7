"""Make a quote readable without its page: add in brackets what a reader lacks, and remove what points elsewhere.

Rules expand acronyms and name the speaker by the title. A language model asks questions, which it answers from the
document; `anchor` finds the place of an answer, and `addition` the part of it to add. English only, but for acronyms.
Long forms are found as Schwartz and Hearst (2003) do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from plugins.evidence.asking import QuoteAsker, prompts_version
from plugins.evidence.rewrite_checks import (
    FLOAT_REFERENCE,
    LONGEST,
    MARKER,
    EvidenceTexts,
    addition_refused,
    spans_refused,
)
from plugins.evidence.source import (
    Edit,
    QuoteSpan,
    SourcePassage,
    SourceQuote,
    Within,
    apply,
    bracketed,
    clipped,
    place_behind,
    untouchable,
)
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, split, stemmed, stems, words

QUESTIONS = 3
RETRIEVED = 3
ADDITIONS = 5
"""Most questions a model may ask, passages retrieved for each, and additions to one quote."""
SNIPPET_CHARS = 4000
QUESTION_TOKENS = 80
ANSWER_TOKENS = 60
PASSAGE_CHARS = 1200
WHOLE_CHARS = 24_000
"""Longest passage that a model is shown, and all of them together."""

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
_ECHO = regex.compile(
    r"^(?:the |their |its |his |this |these |that |a |an )?(?:[^\s,.;:]+\s+){1,6}?"
    r"(?:stands? for|refers? to|means|denotes|is defined as|are defined as|is called|is|are|was|were)\s+",
    regex.IGNORECASE,
)
_WHAT_IT_MEANS = regex.compile(
    r"^(?:it|they|this|these|that|here)\s+(?:is|are|was|were|refers? to|means|stands? for)\s+", regex.I
)
_QUOTED = regex.compile(r"[\"“”'‘’`]([^\"“”`]{2,60})[\"“”'‘’`]")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-][\p{L}\p{M}\p{N}_]+)*")
_CITED = regex.compile(
    r"\s*\((?:[^()]*\bet al\b[^()]*|[^()]*\b(?:19|20)\d\d[a-z]?)\)|\s*\[\d[\d,\s–-]*\]"
    r"|\s*\b(?:BIBREF|FIGREF|TABREF)\d+(?:\s*,\s*BIBREF\d+)*"
)
_VERBS = tuple(stems("stands refers means denotes defined called stand refer mean author"))
_ALONE = frozenset(("however", "thus", "therefore", "moreover", "furthermore", "hence", "but", "and"))
_NONE = regex.compile(r"^\W*(?:no answer|none|unknown|n/?a|cannot[_ ]answer|not (?:stated|given|specified))\b", regex.I)
_LABEL = regex.compile(r"^(?:\W*(?:answer|explanation)\s*:\s*)", regex.IGNORECASE)
_PASSAGE_ONLY = regex.compile(r"\b(?:who|whom|whose|citation|cited|table|figure|section|equation|formula)\b", regex.I)
_NO_QUESTIONS = regex.compile(r"^\W*no questions?\b", regex.IGNORECASE)
_BULLET = regex.compile(r"^\s*(?:[-*•]|\d+[.)]|Q\d*[:.])\s*")


@dataclass(frozen=True, slots=True)
class QuoteFinding:
    """A question and its answer from the document, with its place in the quote, the text to add there, and the words of
    the document that say so."""

    question: str
    answer: str
    passage: str
    at: int
    addition: str
    evidence: str


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """A question about a quote, its answer, and the passage it is from (empty: lead, title or paragraph).

    `evidence` are the words of the document that it was answered from.
    """

    question: str
    answer: str
    passage: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandaloneQuote:
    """A quote made readable. `text` is how it is shown; `refused` says what the guard turned down, and why."""

    text: str
    spans: tuple[QuoteSpan, ...]
    questions: tuple[QuoteAnswer, ...]
    refused: str = ""


@lru_cache(maxsize=4096)
def long_forms(text: str) -> dict[str, str]:
    """Return the acronyms that a text expands, with their long forms as written."""
    forms: dict[str, str] = {}
    for match in _IN_BRACKETS.finditer(text):
        short = match[2].strip()
        if _is_short(short) and (long := _matching(short, match[1])):
            forms.setdefault(short, long)
    for match in _LONG_IN_BRACKETS.finditer(text):
        short, inside = match[1], match[2].strip()
        if _is_short(short) and (long := _matching(short, inside)) and len(long) >= 0.8 * len(inside):
            forms.setdefault(short, long)
    return forms


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
    at = position = 0
    for letter in letters:
        if letter in initials[at:]:
            at += initials[at:].index(letter) + 1
            position += 1
    return position


def rule_findings(quote: SourceQuote) -> list[QuoteFinding]:
    """Return the additions that rules find, in the order of the quote; at most one per place."""
    return first_by_place((*_acronyms(quote), *_first_person(quote)))


def first_by_place(findings: Iterable[QuoteFinding]) -> list[QuoteFinding]:
    """Return the first finding of each place, in the order of the quote."""
    by_place: dict[int, QuoteFinding] = {}
    for finding in findings:
        by_place.setdefault(finding.at, finding)
    return sorted(by_place.values(), key=lambda finding: finding.at)


def texts_of(quote: SourceQuote) -> Iterator[tuple[str, str]]:
    """Return the texts read of the document, with their passage ids: lead and paragraph first."""
    yield "", quote.lead
    yield "", quote.paragraph
    for passage in quote.passages:
        yield passage.id, passage.text


def _acronyms(quote: SourceQuote) -> Iterator[QuoteFinding]:
    here = long_forms(quote.snippet)
    forms: dict[str, tuple[str, str, str]] = {}
    for passage, text in texts_of(quote):
        for short, long in long_forms(text).items():
            forms.setdefault(short, (long, passage, text))
    folded = quote.snippet.casefold()
    done = set[str]()
    for match in _ACRONYM.finditer(quote.snippet):
        short = match.group() if match.group() in forms else match.group().removesuffix("s")
        if short in here or short in done or short not in forms:
            continue
        done.add(short)
        long, passage, text = forms[short]
        at = place_behind(quote.snippet, match.end())
        if at is not None and long.casefold() not in folded:
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


def shortened(text: str, longest: int = LONGEST) -> str:
    """The beginning of `text` of at most so many words: whole sentences, else whole clauses, else words."""
    plain = " ".join(text.split())
    if len(plain.split()) <= longest:
        return plain
    clipped = ""
    for start, end in sentence_spans(plain):
        if len(plain[:end].split()) > longest:
            break
        clipped = plain[:end] if start >= 0 else clipped
    if not clipped:
        head = " ".join(plain.split()[:longest])
        clause = regex.match(r".{20,}(?=[,;:])", head, regex.DOTALL)
        clipped = clause.group() if clause else head
    return clipped.rstrip(" ,;:")


def anchor(snippet: str, question: str, answer: str = "") -> int | None:
    """Where an answer goes: behind the words of the quote that the question asks about; None where it may not.

    That is the longest run of the question's words in the quote, a quoted term before all; without a common word of
    content the end of the quote's last sentence.
    """
    for match in _QUOTED.finditer(question):
        hit = regex.search(rf"(?<!\w){regex.escape(match[1].strip(' ?.,'))}(?!\w)", snippet, regex.IGNORECASE)
        if hit:
            return place_behind(snippet, hit.end())
    matches = list(_WORD.finditer(snippet))
    here = _folded(match.group() for match in matches)
    words = _folded(match.group() for match in _WORD.finditer(question))
    best, where = (0, 0), None
    for i in range(len(here)):
        for j in range(len(words)):
            length = 0
            while i + length < len(here) and j + length < len(words) and here[i + length] == words[j + length]:
                length += 1
            # A run is worth its words of content; it ends with one.
            while length and not _content(here[i + length - 1]):
                length -= 1
            worth = (sum(_content(word) for word in here[i : i + length]), length)
            if worth > best:
                best, where = worth, matches[i + length - 1].end()
    if where is None:
        spans = sentence_spans(snippet)
        last = [match.end() for match in matches if not spans or match.end() <= spans[-1][1]]
        where = last[-1] if last else None
    return None if where is None else place_behind(snippet, where)


def _folded(texts: Iterable[str]) -> list[str]:
    """Stems of words, one each; function words as they are."""
    return stemmed(["".join(part for _, parts in split(word) for part in parts) or word for word in texts])


def _content(word: str) -> bool:
    return word not in FUNCTION_WORDS and word not in ("author", "paper", "refer", "mean", "stand", "use")


def addition(snippet: str, answer: str, at: int | None = None) -> str:
    """Return the part of an answer to put in brackets at a place: without the question's echo (`X stands for …`), the
    words before the place, brackets and full stop."""
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


def removals(snippet: str) -> list[Edit]:
    """Return spans to remove once a sentence leaves its page: a leading discourse marker, figure and table
    references."""
    edits = list[Edit]()
    begun = MARKER.match(snippet)
    if begun and begun.end() < len(snippet) and ("," in begun.group() or begun.group().casefold().strip() in _ALONE):
        edits.append(Edit(begun.start(), begun.end()))
    edits += [
        Edit(*match.span())
        for match in FLOAT_REFERENCE.finditer(snippet)
        if match.start() >= (begun.end() if edits and begun else 0)
    ]
    return edits


def insertions(snippet: str, findings: Sequence[QuoteFinding]) -> list[Edit]:
    """The edits that put each finding behind its place, and take out what may go."""
    gone = removals(snippet)
    edits = [Edit(finding.at, finding.at, finding.addition) for finding in findings]
    free = [edit for edit in edits if not any(cut.start < edit.start < cut.end for cut in gone)]
    return [*gone, *free]


def document_parts(quote: SourceQuote) -> dict[str, str]:
    """Return what a model is shown of a document besides passages: title, beginning, section's heading, paragraph."""
    parts = {"Title": quote.title, "Beginning": quote.lead, "Section": quote.section}
    parts["Around the text"] = quote.paragraph
    return {name: text for name, text in parts.items() if text}


async def prompted_answer(
    asker: QuoteAsker,
    quote: SourceQuote,
    question: str,
    passages: Sequence[SourcePassage],
    document: Mapping[str, str],
) -> QuoteAnswer | None:
    """Ask the model for an answer; None if it says that the document does not say. Raises AskingFailed."""
    passages_shown, room = list[str](), WHOLE_CHARS
    for passage in passages:
        text = clipped(passage.text, PASSAGE_CHARS)
        if len(text) > room:
            break
        room -= len(text)
        passages_shown.append(text)
    parts = {
        "document": "\n\n".join(f"{name}: {text}" for name, text in document.items()),
        "snippet": quote.snippet,
        "passages": "".join(f"Elsewhere in the document: {text}\n\n" for text in passages_shown),
        "question": question,
    }
    answer = _LABEL.sub("", (await asker.ask("answer", parts, ANSWER_TOKENS)).split("\n")[0]).strip()
    if not stems(answer) or _NONE.match(answer):
        return None
    texts = (*document.values(), *(passage.text for passage in passages))
    return QuoteAnswer(question, answer, best_passage(answer, passages), texts)


def best_passage(answer: str, passages: Sequence[SourcePassage]) -> str:
    """The passage with a sentence that holds most of an answer's words, at least half of them."""
    wanted, best, share = set(stems(answer)), "", 0.5
    for passage in passages:
        for start, end in sentence_spans(passage.text):
            overlap = len(wanted & set(stems(passage.text[start:end]))) / max(1, len(wanted))
            if overlap > share:
                best, share = passage.id, overlap
    return best


async def make_standalone(
    quote: SourceQuote, asker: QuoteAsker | None = None, within: Within | None = None
) -> StandaloneQuote:
    """Return the quote with what its readers lack. `within` holds the texts of `quote.passages`, in their order.

    Without an `asker` no model is asked. Raises AskingFailed. Blocking work runs in threads.
    """
    if len(quote.snippet) > SNIPPET_CHARS:
        return unchanged(quote, f"The quote has more than {SNIPPET_CHARS:,} characters; quote less of the document.")
    settled, document = await asyncio.to_thread(rule_findings, quote), document_parts(quote)
    answers = []
    for question in await questions_of(asker, quote, settled) if asker is not None else ():
        passages = await asyncio.to_thread(retrieved_passages, quote, question, document.values(), within)
        if answer := await prompted_answer(asker, quote, question, passages, document):  # type: ignore[arg-type]
            answers.append(answer)
    return await asyncio.to_thread(inserted, quote, settled, answers)


def unchanged(quote: SourceQuote, refused: str = "") -> StandaloneQuote:
    return StandaloneQuote(quote.snippet, (QuoteSpan("kept", quote.snippet),), (), refused)


def inserted(quote: SourceQuote, settled: Sequence[QuoteFinding], answers: Sequence[QuoteAnswer]) -> StandaloneQuote:
    """Put every finding and answer behind its anchor, as far as the checks let it."""
    judged = [
        (finding, addition_refused(finding.addition, quote.snippet, EvidenceTexts([finding.evidence])))
        for finding in settled
    ]
    findings = [finding for finding, reason in judged if not reason]
    reasons = dict.fromkeys(reason for _, reason in judged if reason)
    known_stems = set(stems(quote.snippet)).union(*(stems(finding.addition) for finding in findings))
    supported = list[QuoteAnswer]()
    for answer in answers:
        at = anchor(quote.snippet, answer.question, answer.answer)
        text = addition(quote.snippet, answer.answer, at)
        if at is None or not set(stems(text)) - known_stems:
            continue
        if reason := addition_refused(text, quote.snippet, EvidenceTexts(answer.evidence)):
            reasons[reason] = None
            continue
        known_stems |= set(stems(text))
        findings.append(QuoteFinding(answer.question, answer.answer, answer.passage, at, text, ""))
        supported.append(answer)
    chosen = findings[:ADDITIONS]
    spans = apply(quote.snippet, insertions(quote.snippet, chosen))
    if reason := spans_refused(quote.snippet, spans):
        # What the rules took out did not stand as they thought.
        reasons[reason] = None
        spans = apply(quote.snippet, [Edit(finding.at, finding.at, finding.addition) for finding in chosen])
        if reason := spans_refused(quote.snippet, spans):
            return unchanged(quote, reason)
    all_answers = (*as_answers(settled), *supported)
    return StandaloneQuote(bracketed(spans), tuple(spans), all_answers, " ".join(reasons))


def as_answers(findings: Sequence[QuoteFinding]) -> tuple[QuoteAnswer, ...]:
    return tuple(
        QuoteAnswer(finding.question, finding.answer, finding.passage, (finding.evidence,)) for finding in findings
    )


def retrieved_passages(
    quote: SourceQuote, question: str, shown: Iterable[str], within: Within | None
) -> list[SourcePassage]:
    """Return the passages that a question finds, without those whose words are `shown` already."""
    if within is None:
        within = Within([passage.text for passage in quote.passages])
    texts = [text for text in shown if len(text) > 40]
    hits = list[SourcePassage]()
    for place in within.rank(question, len(quote.passages)):
        passage = quote.passages[place]
        if not any(passage.text in text or text in passage.text for text in (*texts, quote.snippet)):
            hits.append(passage)
        if len(hits) == RETRIEVED:
            break
    return hits


async def questions_of(asker: QuoteAsker, quote: SourceQuote, settled: Sequence[QuoteFinding]) -> list[str]:
    """Ask a model for questions, without those settled by rules and those not to be asked."""
    reply = await asker.ask("questions", {"snippet": quote.snippet}, QUESTION_TOKENS)
    questions = list[str]()
    for line in reply.splitlines():
        question = _BULLET.sub("", line).strip()
        if _NO_QUESTIONS.match(question):
            break
        settled_stems = [
            set(stems(finding.question)) - {"stand"} for finding in settled if finding.question.startswith("What")
        ]
        question_stems = set(stems(question))
        if (
            question.endswith("?")
            and question_stems
            and not _PASSAGE_ONLY.search(question)
            and question not in questions
            and not any(question_stems - {"stand", "mean", "refer"} <= stems_of for stems_of in settled_stems)
        ):
            questions.append(question)
    return questions[:QUESTIONS]


def passage_of(answer: QuoteAnswer, quote: SourceQuote) -> str:
    """Return the id of the passage that holds an answer; empty for the lead, the title or the paragraph."""
    return answer.passage or best_passage(answer.answer, quote.passages)


def plan_version() -> str:
    """Return a mark that changes with the prompts."""
    return prompts_version("questions", "answer")
