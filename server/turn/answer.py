"""Read a model's raw text and emit the events of an answer.

`AnswerReader` takes the pieces that a model streams and returns token, citation and support events. It removes refusal
tokens and control characters, checks markers and scores sentences. The result depends on the whole text and not on
where it was cut. Prompting, timing and errors belong to `server.turn.reply`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote as percent

import regex

from rewriter.protocol import Conversation
from server.turn.citations import CitationParser, DenialFilter, HeaderFilter, Marker, RefusalFilter, ThoughtFilter
from server.turn.events import AnswerKind, CitationEvent, Evidence, SupportEvent, TokenEvent
from server.turn.models import examples
from server.turn.quote_shapes import LEADS_IN, following_block, list_topic, quote_text
from server.turn.support import (
    ATTRIBUTED,
    SUPPORTED,
    Judged,
    Statement,
    StatementTracker,
    Support,
    SupportScorer,
    begins_yes_or_no,
)
from text.languages import ENGLISH
from text.sanitize import sanitize_text, web_address
from text.sentences import sentence_spans
from text.words import stems, words

_EDGES = " \n\t.,;:!?\"'“”‘’`*()[]"


def answer_kind(answer: str, passages: Iterable[str]) -> AnswerKind:
    """The kind of an answer without its citation markers; an empty one answers nothing.

    It is extractive if each of its sentences occurs in a passage, ignoring case, spaces and outer punctuation.
    """
    sentences = [_plain(answer[start:end]) for start, end in sentence_spans(answer)]
    if not any(sentences):
        return "unanswerable"
    if begins_yes_or_no(answer):
        return "yes/no"
    held = [_plain(passage) for passage in passages]
    return "extractive" if all(any(sentence in text for text in held) for sentence in sentences) else "abstractive"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES)


_MARKERS_BEHIND = regex.compile(r"(?: ?\[\d{1,3}\])* ?")


def borne_out(answer: str, support: Iterable[SupportEvent], *, doubted: bool) -> str:
    """Return an answer as later turns read it: without statements that its sources contradict.

    Where it says itself that nothing in it could be matched (`doubted`), no unsupported statement stays either.
    """
    wrong = [event for event in support if event.contradicted or (doubted and not event.supported)]
    for event in sorted(wrong, key=lambda event: event.answer_start, reverse=True):
        behind = _MARKERS_BEHIND.match(answer, event.answer_end)
        answer = answer[: event.answer_start] + answer[behind.end() if behind else event.answer_end :]
    return answer.strip()


_TAGS = regex.compile(
    r"</?(?:passages?|question|system|user|assistant)>|<\|\w+\|>|cannot_answer|^\W*(?:Question|They mean):|\w › \w",
    regex.IGNORECASE | regex.MULTILINE,
)
_CODE = regex.compile(
    r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)|\Z)|(?P<ticks>`+)[^`]+(?P=ticks)", regex.MULTILINE | regex.DOTALL
)
_NUMBER = regex.compile(r"\[\d{1,2}\]")


def answers_to_others(conversation: Conversation, question: str) -> tuple[str, ...]:
    """Return the answers of a conversation, newest first, without those to this question in the same words.

    Whoever asks the same thing again, or a part of it, is to get the same answer.
    """
    answers, asked, wanted = list[str](), "", f" {' '.join(words(question))} "
    for message in conversation.messages:
        if message.role == "user":
            asked = f" {' '.join(words(message.text))} "
        elif wanted not in asked:
            answers.append(message.text)
    return tuple(reversed(answers))


def broken_form(answer: str, question: str, said: Iterable[str], passages: Iterable[str]) -> str:
    """Return how an `answer` without its markers breaks form, in a word for traces; empty if it does not.

    `leak`: it holds a piece of the prompt. `marker in code`: a passage number stands in a command, where no passage has
    it. `echo`: it says the words of the `question` and nothing else. `repeats`: each sentence stands in one answer of
    those that were `said` to other questions, and it is no small part of that: long quotes may hold what answers next.
    Small models do all of these.
    """
    texts = list(passages)
    if any(not _held(match[0], texts) for match in _TAGS.finditer(answer)):
        return "leak"
    for code in _CODE.finditer(answer):
        if _NUMBER.search(code[0]) and not _held(code[0].strip("`~"), texts):
            return "marker in code"
    terms = set(stems(answer))
    if terms and terms <= set(stems(question)) and not begins_yes_or_no(answer):
        return "echo"
    sentences = [_plain(answer[start:end]) for start, end in sentence_spans(answer)]
    length = sum(map(len, sentences))
    before = (text for text in (_plain(_NUMBER.sub("", other)) for other in said) if text)
    repeats = any(all(one in text for one in sentences) and PART * length >= len(text) for text in before)
    return "repeats" if terms and repeats else ""


def _held(words: str, texts: Sequence[str]) -> bool:
    return any(words.strip() in text for text in texts)


PART = 5
"""An answer that is a smaller part of an earlier one than one in so many does not repeat it."""
LED = 2
"""Blocks that are added to an answer at most."""
SAID = 0.5
"""A block of whose words the answer holds this share is there already."""

_NO_PLACE = ("```", "~~~", "|")
"""Behind a fence or the last bar of a row there is no place for a marker."""

AnswerEvent = TokenEvent | CitationEvent | SupportEvent


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer: the text as shown, its citations, its judged statements."""

    text: str
    citations: list[CitationEvent]
    support: list[SupportEvent]
    dropped_citations: int
    refused: bool

    @property
    def plain(self) -> str:
        """The text without its markers."""
        text, at = "", 0
        for citation in self.citations:
            text, at = text + self.text[at : citation.answer_start].rstrip(" "), citation.answer_end
        return text + self.text[at:]


class AnswerReader:
    """Reads one answer; feed it the model's pieces in order, then finish once."""

    def __init__(self, evidence: Sequence[Evidence], language: str = ENGLISH) -> None:
        self._evidence = {passage.n: passage for passage in evidence}
        self._scorer = SupportScorer(evidence, language)
        self._refusal = RefusalFilter()
        self._thoughts = ThoughtFilter()
        self._denial = DenialFilter(_echoes(evidence))
        self._headers = HeaderFilter(evidence)
        texts = [passage.text for passage in evidence]
        self._parser = CitationParser(self._evidence, lambda words: any(words in text for text in texts))
        self._tracker = StatementTracker()
        self._shown = ""
        self._blank = ""
        self._events: list[AnswerEvent] = []
        self._citations: list[CitationEvent] = []
        self._support: list[SupportEvent] = []
        self._statements: dict[tuple[int, int], str] = {}
        self._uncited: list[Statement] = []
        self._led: list[Support] = []
        self._said: set[str] = set()
        self._repeated = False
        self._whole = True

    @property
    def shown(self) -> str:
        """The answer as the user sees it by now."""
        return self._shown

    @property
    def refused(self) -> bool:
        """Whether the model declined before it said anything of substance: nothing more is worth reading."""
        shown_words = self._shown.split() if self._shown.isascii() else words(self._shown)
        token = self._refusal.found and not self._citations and len(shown_words) < 6
        return token or self._denial.refused

    @property
    def repeating(self) -> bool:
        """Whether the model says again what it said: small ones go on like that to their limit."""
        return self._repeated

    @property
    def scorer(self) -> SupportScorer:
        """The scorer that compares sentences with the evidence of this turn."""
        return self._scorer

    def feed(self, text: str) -> list[AnswerEvent]:
        """The events that one more piece of the model's text brings."""
        self._read(self._parser.feed(self._filtered(self._refusal.feed(self._thoughts.feed(sanitize_text(text))))))
        return self._take()

    def finish(self, *, whole: bool = True) -> list[AnswerEvent]:
        """The events that were waiting for the end of the text; `whole` tells whether the model came to its end."""
        self._whole = whole
        last_text = self._refusal.feed(self._thoughts.finish()) + self._refusal.finish()
        rest = self._filtered(last_text) + self._denial.feed(self._headers.finish())
        self._read(self._parser.feed(rest + self._denial.finish()))
        self._read(self._parser.finish())
        self._judge(self._tracker.finish())
        self._leave_uncited()
        return self._take()

    def say(self, text: str) -> list[AnswerEvent]:
        """Show a sentence of the server's own, after what the model may have said."""
        self._show(("\n\n" if self._shown else "") + text)
        return self._take()

    def write(self, text: str) -> list[AnswerEvent]:
        """Show a person's text. Its markers cite whole passages; those that it leaves out are named at its end."""
        parser = CitationParser(self._evidence, lambda _: False)
        for piece in (*parser.feed(sanitize_text(text)), *parser.finish()):
            self._name(piece.n) if isinstance(piece, Marker) else self._show(piece)
        left = [n for n in self._evidence if n not in {citation.n for citation in self._citations}]
        if left:
            self._show("\n\n" if self._shown.endswith(_NO_PLACE) else " ")
        for n in left:
            self._name(n)
        return self._take()

    def _name(self, n: int) -> None:
        self._show(f"[{n}]")
        self._add_citation(n, None, f"[{n}]")

    def quote(self, support: Support) -> list[AnswerEvent]:
        """Show a sentence of the evidence as a block quotation with its citation."""
        self._show("\n\n" if self._shown else "")
        start = len(self._shown)
        text, topic = quote_text(support, self._evidence[support.n]), list_topic(support, self._evidence[support.n])
        if topic and topic not in self._shown:
            text = f"{topic}\n\n{text}"
        self._show("> " + text.replace("\n", "\n> "))
        end = len(self._shown)
        apart = "\n>\n> " if self._shown.endswith(_NO_PLACE) else " "
        self._show(f"{apart}[{support.n}]")
        self._add_citation(support.n, support, f"[{support.n}]")
        self._add_support(start, end, (support.n,), 1.0)
        return self._take()

    def complete(self) -> list[AnswerEvent]:
        """Quote the code, lists and tables that cited sentences lead to, where the answer leaves them out."""
        added = list[AnswerEvent]()
        tail = self._shown.rpartition("\n")[2]
        if LEADS_IN.search(tail) and (best := self._scorer.best(tail, self._evidence)) and best.score >= ATTRIBUTED:
            self._led.append(best)
        for sentence in self._led[:LED] if self._whole else ():
            block = following_block(sentence, self._evidence[sentence.n])
            words = set(stems(block.quote))
            if len(words & set(stems(self._shown))) < SAID * len(words):
                lines = block.quote.lstrip("\n")
                start = block.end - len(lines)
                added += self.quote(replace(block, quote=lines, start=start))
        return added

    def statements(self) -> list[Judged]:
        """The statements of the answer in reading order, as they are judged by now; quotes are none."""
        return [
            Judged(self._statements[place], event)
            for event in self._support
            if (place := (event.answer_start, event.answer_end)) in self._statements
        ]

    def rejudge(self, events: Iterable[SupportEvent]) -> None:
        """Take further judgements: each replaces the one before of the same statement."""
        newest = {(event.answer_start, event.answer_end): event for event in events}
        self._support = [newest.get((event.answer_start, event.answer_end), event) for event in self._support]

    def answer(self) -> Answer:
        """Everything shown and judged by now."""
        return Answer(self._shown, self._citations, self._support, self._parser.dropped, self.refused)

    def _filtered(self, text: str) -> str:
        return self._denial.feed(self._headers.feed(text))

    def _read(self, pieces: Iterable[str | Marker]) -> None:
        for piece in pieces:
            if isinstance(piece, Marker):
                self._cite(piece)
                continue
            in_code = self._parser.in_code
            for char in piece:
                # Blanks wait for what follows, so that an answer neither begins nor ends with them.
                if char.isspace():
                    self._blank += char if self._shown else ""
                    continue
                text, self._blank = self._blank + char, ""
                self._judge(self._tracker.code(text) if in_code else self._tracker.text(text))
                self._show(text)

    def _cite(self, marker: Marker) -> None:
        if self._blank:
            blank, self._blank = self._blank, ""
            self._judge(self._tracker.text(blank))
            self._show(blank)
        support = self._scorer.best(self._tracker.current, [marker.n])
        n, attributed = marker.n, False
        if support is not None and support.score < SUPPORTED:
            better = self._scorer.best(self._tracker.current, self._evidence)
            if better is not None and better.score >= ATTRIBUTED:
                support, n, attributed = better, better.n, True
        text = f"[{n}]"
        self._tracker.marker(n, text)
        self._show(text)
        self._add_citation(n, support, text, attributed=attributed)

    def _judge(self, statements: Iterable[Statement]) -> None:
        """A statement that neither cites nor can be attributed waits: the next marker of its line speaks for it."""
        for statement in statements:
            sentence = " ".join(statement.text.casefold().split())
            self._repeated |= sentence in self._said
            self._said.add(sentence)
            if self._uncited and self._uncited[-1].line != statement.line:
                self._leave_uncited()
            if not statement.cited:
                if not self._attribute(statement):
                    self._uncited.append(statement)
                continue
            waiting, self._uncited = self._uncited, []
            for judged in (*waiting, statement):
                score = self._scorer.score(judged.text, statement.cited)
                self._add_support(judged.start, judged.end, statement.cited, score, judged.text)

    def _attribute(self, statement: Statement) -> bool:
        """Cite the passage that plainly says what the model said without citing: small models forget to."""
        best = self._scorer.best(statement.text, self._evidence) if self._whole else None
        # Behind the last bar of a table row there is no place for a marker.
        if best is None or best.score < ATTRIBUTED or statement.text.endswith("|"):
            return False
        marker = f"[{best.n}]"
        self._tracker.inserted(f" {marker}")
        self._show(f" {marker}")
        self._add_citation(best.n, best, marker, attributed=True)
        self._add_support(statement.start, statement.end, (best.n,), best.score, statement.text)
        return True

    def _leave_uncited(self) -> None:
        """Nothing is cited for these: they stay unsupported, whatever the evidence may hold."""
        waiting, self._uncited = self._uncited, []
        for statement in waiting:
            score = self._scorer.score(statement.text, self._evidence)
            self._add_support(statement.start, statement.end, (), score, statement.text)

    def _add_citation(self, n: int, support: Support | None, marker: str, *, attributed: bool = False) -> None:
        passage = self._evidence[n]
        quote = support.quote if support else passage.text
        place = support or passage
        event = CitationEvent(
            **{**dict(passage), "start": place.start, "end": place.end},
            quote=quote,
            answer_start=len(self._shown) - len(marker),
            answer_end=len(self._shown),
            attributed=attributed,
            url=address_at(passage.source, quote, passage.page),
        )
        self._citations.append(event)
        self._events.append(event)
        if support is not None and support.score >= SUPPORTED and support not in self._led:
            self._led.append(support)

    def _add_support(self, start: int, end: int, cited: Sequence[int], score: float, text: str = "") -> None:
        event = SupportEvent(
            answer_start=start,
            answer_end=end,
            cited=list(cited),
            score=score,
            supported=bool(cited) and score >= SUPPORTED,
        )
        if text:
            self._statements[start, end] = text
        self._support.append(event)
        self._events.append(event)

    def _show(self, text: str) -> None:
        if not text:
            return
        self._shown += text
        if self._events and isinstance(self._events[-1], TokenEvent):
            self._events[-1] = TokenEvent(text=self._events[-1].text + text)
        else:
            self._events.append(TokenEvent(text=text))

    def _take(self) -> list[AnswerEvent]:
        events, self._events = self._events, []
        return events


def _echoes(evidence: Sequence[Evidence]) -> list[str]:
    """Return the sentences of the instructions' example that would be echoes, unless a document contains them."""
    texts = [passage.text.casefold() for passage in evidence]
    return [example for example in examples() if not any(example.casefold() in text for text in texts)]


_EDGE = 4
"""So many words at each end of a long sentence tell where it stands."""
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"\\([^\w\s]|_)|^\s*(?:#+|[-*+>]|\d+[.)])\s+|\*+|`+|~~|(?<!\w)_+|_+(?!\w)", re.MULTILINE)


def address_at(source: str, quote: str, page: int | None = None) -> str:
    """Where a person opens a source at a sentence of its text; empty where the source is no http(s) address.

    Browsers look for the words of a text fragment; of a PDF they open the page. The words of markup are left out.
    """
    url, mark = web_address(source).partition("#")[::2]
    if not url or page:
        return f"{url}#page={page}" if url else ""
    plain = _MARKUP.sub(r"\1", _LINK.sub(r"\1", quote))
    lines = [max(line.split("|"), key=len).split() for line in plain.splitlines()]
    lines = [words for words in lines if any(map(str.isalnum, "".join(words)))]
    if not lines:
        return url + (f"#{mark}" if mark else "")
    ends = lines[:1] if len(lines) == 1 and len(lines[0]) <= 2 * _EDGE else [lines[0][:_EDGE], lines[-1][-_EDGE:]]
    return f"{url}#{mark}:~:text=" + ",".join(percent(" ".join(words), safe="").replace("-", "%2D") for words in ends)
