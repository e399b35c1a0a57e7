"""Resolve, by rules, references in a quote from its document: acronyms, first person, defined terms.

Also where an answer is put (`anchor`) and what of it (`addition`), whoever gave it. Works for English; in other
languages it finds acronyms and little else. Long forms are found as Schwartz and Hearst (2003) do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Literal

import regex

from plugins.evidence.asking import QuoteAsker, prompts_version
from plugins.evidence.rewrite_checks import (
    FLOAT_REFERENCE,
    LONGEST,
    MARKER,
    EvidenceTexts,
    addition_refused,
    read_rewrite,
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
    numbered_texts,
    place_behind,
    untouchable,
)
from server.turn.support import SupportScorer
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


def find(quote: SourceQuote) -> list[QuoteFinding]:
    """Return the additions the rules find, in the order of the quote; at most one per place."""
    by_place: dict[int, QuoteFinding] = {}
    for finding in (*_acronyms(quote), *_first_person(quote), *_definitions(quote)):
        by_place.setdefault(finding.at, finding)
    return sorted(by_place.values(), key=lambda finding: finding.at)


def _texts(quote: SourceQuote) -> Iterator[tuple[str, str]]:
    """Return the texts read of the document, with their passage ids: lead and paragraph first."""
    yield "", quote.lead
    yield "", quote.paragraph
    for passage in quote.passages:
        yield passage.id, passage.text


def _acronyms(quote: SourceQuote) -> Iterator[QuoteFinding]:
    here = long_forms(quote.snippet)
    forms: dict[str, tuple[str, str, str]] = {}
    for passage, text in _texts(quote):
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


def _definitions(quote: SourceQuote) -> Iterator[QuoteFinding]:
    for term, end in _terms(quote.snippet):
        pattern = regex.compile(rf"(?<![\p{{L}}\p{{N}}]){regex.escape(term)}{_DEFINES}")
        if pattern.search(quote.snippet):
            continue
        for passage, text in _texts(quote):
            if not pattern.search(text):
                continue
            definition = next(
                (_defined(pattern, text[a:b], term) for a, b in sentence_spans(text) if term in text[a:b]), None
            )
            if definition and not set(stems(definition[0])) <= set(stems(quote.snippet)):
                at = place_behind(quote.snippet, end)
                if at is not None:
                    yield QuoteFinding(f"What is {term}?", definition[0], passage, at, definition[0], definition[1])
                break


def _defined(pattern: regex.Pattern[str], sentence: str, term: str) -> tuple[str, str] | None:
    match = pattern.search(sentence)
    if match is None:
        return None
    meaning = sentence[match.end() :].strip().rstrip(".").strip()
    meaning = regex.sub(r"^which (?:is|are) ", "", regex.sub(r"\s*\[[^\[\]]*\]|\s*\([^()]*\)", "", meaning))
    cut = shortened(meaning, DEFINITION_WORDS)
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


_CITED = regex.compile(
    r"\s*\((?:[^()]*\bet al\b[^()]*|[^()]*\b(?:19|20)\d\d[a-z]?)\)|\s*\[\d[\d,\s–-]*\]"
    r"|\s*\b(?:BIBREF|FIGREF|TABREF)\d+(?:\s*,\s*BIBREF\d+)*"
)
_VERBS = tuple(stems("stands refers means denotes defined called stand refer mean author"))


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


_ALONE = frozenset(("however", "thus", "therefore", "moreover", "furthermore", "hence", "but", "and"))


def insertions(snippet: str, findings: Sequence[QuoteFinding]) -> list[Edit]:
    """The edits that put each finding behind its place, and take out what may go."""
    gone = removals(snippet)
    edits = [Edit(finding.at, finding.at, finding.addition) for finding in findings]
    free = [edit for edit in edits if not any(cut.start < edit.start < cut.end for cut in gone)]
    return [*gone, *free]


ANSWER_TOKENS = 60
PASSAGE_CHARS = 1200
WHOLE_CHARS = 24_000
"""Longest passage that a model is shown of those retrieved, and of a whole document."""

MATCHES = 0.5
"""Where no sentence matches the question this well, none answers it."""

_NONE = regex.compile(r"^\W*(?:no answer|none|unknown|n/?a|cannot[_ ]answer|not (?:stated|given|specified))\b", regex.I)
_LABEL = regex.compile(r"^(?:\W*(?:answer|explanation)\s*:\s*)", regex.IGNORECASE)


_PARTS: dict[str, tuple[str, Callable[[SourceQuote], str]]] = {
    "T": ("Title", attrgetter("title")),
    "A": ("Beginning", attrgetter("lead")),
    "I": ("Introduction", attrgetter("introduction")),
    "S": ("Section", attrgetter("section")),
    "P": ("Around the text", attrgetter("paragraph")),
}


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """A question about a quote, its answer, and the passage it is from (empty: lead, title or paragraph).

    `evidence` are the words of the document that it was answered from.
    """

    question: str
    answer: str
    passage: str = ""
    evidence: tuple[str, ...] = ()


def document_text(quote: SourceQuote, variant: str) -> str:
    """Return the part of a document to show besides the retrieved passages: T title, A lead (abstract), I introduction,
    S section's heading, P paragraph, as the letters of `variant` say."""
    return "\n\n".join(f"{_PARTS[letter][0]}: {text}" for letter in variant if (text := _PARTS[letter][1](quote)))


def shown_texts(quote: SourceQuote, variant: str) -> list[str]:
    """The texts of those parts, for comparing."""
    return [text for letter in variant if (text := _PARTS[letter][1](quote))]


async def prompted_answer(
    asker: QuoteAsker, quote: SourceQuote, question: str, passages: Sequence[SourcePassage], variant: str
) -> QuoteAnswer | None:
    """Ask the model for an answer; None where it says that the document does not say. Raises AskingFailed."""
    passages_shown, room = list[str](), WHOLE_CHARS
    for passage in passages:
        text = clipped(passage.text, PASSAGE_CHARS)
        if len(text) > room:
            break
        room -= len(text)
        passages_shown.append(text)
    parts = {
        "document": document_text(quote, variant),
        "snippet": quote.snippet,
        "passages": "".join(f"Elsewhere in the document: {text}\n\n" for text in passages_shown),
        "question": question,
    }
    answer = _LABEL.sub("", (await asker.ask("answer", parts, ANSWER_TOKENS)).split("\n")[0]).strip()
    if not stems(answer) or _NONE.match(answer):
        return None
    texts = (*shown_texts(quote, variant), *(passage.text for passage in passages))
    return QuoteAnswer(question, answer, best_passage(answer, passages), texts)


def extracted_answer(
    quote: SourceQuote, question: str, passages: Sequence[SourcePassage], variant: str
) -> QuoteAnswer | None:
    """The sentence that matches a question best; None where none does well enough."""
    sources = [("", text) for text in shown_texts(quote, variant.replace("T", "").replace("S", ""))]
    sources += [(passage.id, passage.text) for passage in passages]
    if not sources:
        return None
    scorer = SupportScorer(numbered_texts([text for _, text in sources]))
    own, snippet = set(stems(question)), set(stems(quote.snippet))
    best, score = None, MATCHES
    for n, (name, _) in enumerate(sources, 1):
        for match in scorer.matches(question, n):
            new = set(stems(match.quote)) - own - snippet
            if match.score > score and len(new) > 1 and match.quote not in quote.snippet:
                best, score = (name, match.quote), match.score
    if best is None:
        return None
    name, sentence = best
    return QuoteAnswer(question, " ".join(sentence.split()), name, (sentence,))


def best_passage(answer: str, passages: Sequence[SourcePassage]) -> str:
    """The passage with a sentence that holds most of an answer's words, at least half of them."""
    wanted, best, share = set(stems(answer)), "", 0.5
    for passage in passages:
        for start, end in sentence_spans(passage.text):
            overlap = len(wanted & set(stems(passage.text[start:end]))) / max(1, len(wanted))
            if overlap > share:
                best, share = passage.id, overlap
    return best


StandaloneMethod = Literal["insert", "prompted"]

QUESTIONS = 3
RETRIEVED = 3
ADDITIONS = 5
"""Most questions a model may ask, passages retrieved for each, and additions to one quote."""

SNIPPET_CHARS = 4000
QUESTION_TOKENS = 80
_PASSAGE_ONLY = regex.compile(r"\b(?:who|whom|whose|citation|cited|table|figure|section|equation|formula)\b", regex.I)
_NO_QUESTIONS = regex.compile(r"^\W*no questions?\b", regex.IGNORECASE)
_BULLET = regex.compile(r"^\s*(?:[-*•]|\d+[.)]|Q\d*[:.])\s*")
_PAIR = regex.compile(r"^\s*(?:[-*•]\s*)?[\"“`]?(.{2,80}?)[\"”`]?\s*=>\s*(.{2,300})$")


@dataclass(frozen=True, slots=True)
class StandalonePlan:
    """How it is done: `variant` says what of the document is shown beside what is retrieved (`document_text`); `whole`
    shows all of it; `direct` leaves out questions and retrieval; `rewriter_sees` are the letters of D, Q, A, E."""

    method: StandaloneMethod = "insert"
    variant: str = "TASP"
    whole: bool = False
    direct: bool = False
    rules: bool = True
    rewriter_sees: str = "QA"

    @property
    def version(self) -> str:
        """Changes whenever a prompt does, or the plan."""
        names = ("questions", "answer", "rewrite", "pairs")
        plan = f"{self.method}.{self.variant}.{self.whole:d}{self.direct:d}{self.rules:d}.{self.rewriter_sees}"
        return f"{prompts_version(*names)}.{plan}"


@dataclass(frozen=True, slots=True)
class StandaloneGiven:
    """Precomputed values that replace a step: questions, passages for each question, answers."""

    questions: Sequence[str] | None = None
    passages: Mapping[str, Sequence[SourcePassage]] = field(default_factory=dict)
    answers: Sequence[QuoteAnswer] | None = None


@dataclass(frozen=True, slots=True)
class StandaloneQuote:
    """A quote made readable. `text` is how it is shown; `refused` says what the guard turned down, and why."""

    text: str
    spans: tuple[QuoteSpan, ...]
    questions: tuple[QuoteAnswer, ...]
    refused: str = ""
    retrieved: Mapping[str, tuple[SourcePassage, ...]] = field(default_factory=dict)


async def make_standalone(
    quote: SourceQuote,
    plan: StandalonePlan,
    asker: QuoteAsker | None = None,
    within: Within | None = None,
    precomputed: StandaloneGiven | None = None,
) -> StandaloneQuote:
    """The quote with what its readers lack. `within` holds the texts of `quote.passages`, in their order.

    Without an `asker` no model is asked. Raises AskingFailed. Blocking work runs in threads.
    """
    precomputed = precomputed or StandaloneGiven()
    if len(quote.snippet) > SNIPPET_CHARS:
        return unchanged(quote, f"The quote has more than {SNIPPET_CHARS:,} characters; quote less of the document.")
    settled = await asyncio.to_thread(find, quote) if plan.rules else []
    retrieved: dict[str, tuple[SourcePassage, ...]] = {}
    if precomputed.answers is not None:
        answers = list(precomputed.answers)
    elif asker is not None and plan.direct and precomputed.questions is None:
        pairs = await _pairs(asker, quote, plan)
        return await asyncio.to_thread(_inserted, quote, [*settled, *pairs], [], {})
    else:
        questions = list(precomputed.questions) if precomputed.questions is not None else []
        if precomputed.questions is None and asker is not None:
            questions = await _questions(asker, quote, settled)
        answers = []
        for question in questions:
            passages = precomputed.passages.get(question)
            if passages is None:
                passages = await asyncio.to_thread(_retrieved, quote, question, plan, within)
            retrieved[question] = tuple(passages)
            if asker is None:
                answer = await asyncio.to_thread(extracted_answer, quote, question, passages, plan.variant)
            else:
                answer = await prompted_answer(asker, quote, question, passages, plan.variant)
            if answer is not None:
                answers.append(answer)
    refused = ""
    if plan.method == "prompted" and asker is not None:
        rewritten, refused = await _prompted(asker, quote, plan, settled, answers)
        if rewritten is not None:
            questions_asked = (*_as_answers(settled), *answers)
            return StandaloneQuote(bracketed(rewritten), tuple(rewritten), questions_asked, "", retrieved)
    result = await asyncio.to_thread(_inserted, quote, settled, answers, retrieved)
    if not refused:
        return result
    return StandaloneQuote(result.text, result.spans, result.questions, refused, retrieved)


def unchanged(quote: SourceQuote, refused: str = "") -> StandaloneQuote:
    """The quote as it is."""
    return StandaloneQuote(quote.snippet, (QuoteSpan("kept", quote.snippet),), (), refused)


def _inserted(
    quote: SourceQuote,
    settled: Sequence[QuoteFinding],
    answers: Sequence[QuoteAnswer],
    retrieved: Mapping[str, tuple[SourcePassage, ...]],
) -> StandaloneQuote:
    """Every finding and answer behind its anchor, as far as the guard lets it."""
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
    every = EvidenceTexts(
        [*(finding.evidence for finding in settled), *(text for answer in answers for text in answer.evidence)]
    )
    if reason := spans_refused(quote.snippet, spans, every):
        # What the rules took out did not stand as they thought.
        reasons[reason] = None
        spans = apply(quote.snippet, [Edit(finding.at, finding.at, finding.addition) for finding in chosen])
        if reason := spans_refused(quote.snippet, spans, every):
            return unchanged(quote, reason)
    all_answers = (*_as_answers(settled), *(supported if answers else ()))
    return StandaloneQuote(bracketed(spans), tuple(spans), all_answers, " ".join(reasons), retrieved)


def _as_answers(findings: Sequence[QuoteFinding]) -> tuple[QuoteAnswer, ...]:
    return tuple(
        QuoteAnswer(finding.question, finding.answer, finding.passage, (finding.evidence,)) for finding in findings
    )


def _retrieved(quote: SourceQuote, question: str, plan: StandalonePlan, within: Within | None) -> list[SourcePassage]:
    """The passages a question finds, without those whose words the prompt has already."""
    if plan.whole:
        return list(quote.passages)
    if within is None:
        within = Within([passage.text for passage in quote.passages])
    texts = [text for text in shown_texts(quote, plan.variant) if len(text) > 40]
    hits = list[SourcePassage]()
    for place in within.rank(question, len(quote.passages)):
        passage = quote.passages[place]
        if not any(passage.text in text or text in passage.text for text in (*texts, quote.snippet)):
            hits.append(passage)
        if len(hits) == RETRIEVED:
            break
    return hits


async def _questions(asker: QuoteAsker, quote: SourceQuote, settled: Sequence[QuoteFinding]) -> list[str]:
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


async def _pairs(asker: QuoteAsker, quote: SourceQuote, plan: StandalonePlan) -> list[QuoteFinding]:
    """End to end: a model names words of the quote and what they mean, from what it is shown of the document."""
    parts = {"document": document_text(quote, plan.variant), "snippet": quote.snippet}
    reply = await asker.ask("pairs", parts, 2 * QUESTION_TOKENS)
    evidence = "\n\n".join(shown_texts(quote, plan.variant))
    pairs = list[QuoteFinding]()
    for line in reply.splitlines()[:QUESTIONS]:
        match = _PAIR.match(line)
        at = anchor(quote.snippet, f"“{match[1]}”") if match else None
        if match is None or at is None or match[1].casefold() not in quote.snippet.casefold():
            continue
        text = addition(quote.snippet, match[2], at)
        if set(stems(text)) - set(stems(quote.snippet)):
            pairs.append(QuoteFinding(f"What is “{match[1]}”?", match[2], "", at, text, evidence))
    return pairs


async def _prompted(
    asker: QuoteAsker,
    quote: SourceQuote,
    plan: StandalonePlan,
    settled: Sequence[QuoteFinding],
    answers: Sequence[QuoteAnswer],
) -> tuple[list[QuoteSpan] | None, str]:
    """A free rewrite as spans, or why it is refused."""
    all_answers = (*_as_answers(settled), *answers)
    lines = [
        f"{answer.question if 'Q' in plan.rewriter_sees else ''} {answer.answer}".strip() for answer in all_answers
    ]
    document = document_text(quote, plan.variant) if "D" in plan.rewriter_sees else ""
    if "E" in plan.rewriter_sees:
        document += "\n\n" + "\n\n".join(
            dict.fromkeys(text for answer in answers for text in answer.evidence[-RETRIEVED:])
        )
    parts = {
        "document": f"<document>\n{document.strip()}\n</document>\n\n" if document.strip() else "",
        "snippet": quote.snippet,
        "answers": "\n".join(lines),
    }
    # Its own tags are put in by us and were not escaped: the words between them are, once more, on the way.
    reply = await asker.ask("rewrite", parts, len(quote.snippet) // 2 + 200)
    text = regex.sub(r"^\W*Rewritten\s*:\s*", "", reply.strip(), flags=regex.IGNORECASE).strip('"“”')

    def judged() -> tuple[list[QuoteSpan] | None, str]:
        spans, reason = read_rewrite(quote.snippet, text)
        if not reason:
            texts = [
                *(finding.evidence for finding in settled),
                *(text for answer in answers for text in (*answer.evidence, answer.answer)),
                *shown_texts(quote, plan.variant),
            ]
            reason = spans_refused(quote.snippet, spans, EvidenceTexts(texts))
        return (None, reason) if reason else (spans, "")

    return await asyncio.to_thread(judged)


def passage_of(answer: QuoteAnswer, quote: SourceQuote) -> str:
    """Return the id of the passage that holds an answer; empty for the lead, the title or the paragraph."""
    return answer.passage or best_passage(answer.answer, quote.passages)
