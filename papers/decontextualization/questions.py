"""Ask a language model what a reader of a quote lacks, find the answers in its document, and put them in brackets.

The model asks questions and answers them from the document; `anchor` finds the place of an answer, and `addition` the
part of it to add. The product makes quotes readable by the rules of `plugins.evidence.decontextualize` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import regex

from papers.asking import QuoteAsker
from papers.decontextualization.rules import (
    QuoteAnswer,
    QuoteFinding,
    SourceQuote,
    StandaloneQuote,
    allowed,
    as_answers,
    with_additions,
)
from papers.rewrite_checks import EvidenceTexts, addition_refused
from papers.within import Within
from plugins.evidence.decontextualize import LONGEST, place_behind
from plugins.evidence.source import SourcePassage, clipped
from text.sentences import sentence_spans
from text.words import FUNCTION_WORDS, split, stemmed, stems

QUESTIONS = 3
RETRIEVED = 3
"""Most questions a model may ask, and passages retrieved for each."""
QUESTION_TOKENS = 80
ANSWER_TOKENS = 60
PASSAGE_CHARS = 1200
WHOLE_CHARS = 24_000
"""Longest passage that a model is shown, and all of them together."""

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
_NONE = regex.compile(r"^\W*(?:no answer|none|unknown|n/?a|cannot[_ ]answer|not (?:stated|given|specified))\b", regex.I)
_LABEL = regex.compile(r"^(?:\W*(?:answer|explanation)\s*:\s*)", regex.IGNORECASE)
_PASSAGE_ONLY = regex.compile(r"\b(?:who|whom|whose|citation|cited|table|figure|section|equation|formula)\b", regex.I)
_NO_QUESTIONS = regex.compile(r"^\W*no questions?\b", regex.IGNORECASE)
_BULLET = regex.compile(r"^\s*(?:[-*•]|\d+[.)]|Q\d*[:.])\s*")


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


def inserted(quote: SourceQuote, settled: Sequence[QuoteFinding], answers: Sequence[QuoteAnswer]) -> StandaloneQuote:
    """Put every finding and answer behind its anchor, as far as the checks let it."""
    findings, reasons = allowed(quote, settled)
    known_stems = set(stems(quote.snippet)).union(*(stems(finding.addition) for finding in findings))
    supported = list[QuoteAnswer]()
    for answer in answers:
        at = anchor(quote.snippet, answer.question, answer.answer)
        text = addition(quote.snippet, answer.answer, at)
        if at is None or not set(stems(text)) - known_stems:
            continue
        if reason := addition_refused(text, quote.snippet, EvidenceTexts(answer.evidence)):
            reasons.append(reason)
            continue
        known_stems |= set(stems(text))
        findings.append(QuoteFinding(answer.question, answer.answer, answer.passage, at, text, ""))
        supported.append(answer)
    return with_additions(quote, findings, (*as_answers(settled), *supported), reasons)


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
