"""Show a turn in a terminal: its events, its sources, and a source opened at the cited sentence.

Everything shown comes from documents and models: the console keeps it from steering the terminal.
This module asks nothing and keeps only the newest turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from text.links import without_links
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    from server.chat import CitationEvent, DocumentText, DoneEvent, ErrorEvent, Event, Evidence, RewriteEvent

VARIANT_WORDS = {
    "users": "your last question",
    "exchange": "the previous answer",
    "opening": "the first question",
    "conversation": "the conversation",
    "reply": "your reply",
}
MARKER = re.compile(r"\[\d{1,3}\]")
SHORT = 160
"""Characters of a quotation on one line."""
NUMBER_STYLE = "bold cyan"
QUOTE_STYLE = "black on yellow"


def place(title: str, heading: Iterable[str], page: int | None) -> str:
    """Where a passage stands: title, heading path, page."""
    path = " › ".join(sanitize_line(part) for part in (title, *heading) if part.strip())
    return f"{path}, page {page}" if page is not None else path


class Transcript:
    """Prints the events of one turn after the other and remembers what the newest one found.

    `turn_id` is empty until a turn has ended; `evidence` and `citations` are by number. `talking` tells whether what is
    typed next goes on with the conversation.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.talking = True
        self.turn_id = ""
        self.evidence: dict[int, Evidence] = {}
        self.citations: dict[int, CitationEvent] = {}
        self._waiting: Status | None = None
        self._answering = False

    def begin(self) -> None:
        """A question has been asked: forget the turn before and say that work is going on."""
        self.evidence, self.citations, self._answering = {}, {}, False
        if self.console.is_terminal:
            self._waiting = self.console.status("searching", spinner="dots")
            self._waiting.start()

    def show(self, event: Event) -> None:
        """Print what a person should see of `event`."""
        from rich.text import Text

        match event.type:
            case "rewrite":
                self._searched_for(event)
            case "evidence":
                self.evidence = {passage.n: passage for passage in event.passages}
                if self._waiting is not None:
                    self._waiting.update(f"reading {len(event.passages)} passages")
            case "nearest":
                if self._waiting is not None:
                    nearest = sanitize_line(without_links(event.quotes[0].quote))
                    self._waiting.update(Text(f"reading; nearest: “{_shorten(nearest)}”"))
            case "step":
                if self._waiting is not None:
                    self._waiting.update(f"{sanitize_line(event.text)} ({event.done} of {event.of})")
            case "token":
                self._token(event.text)
            case "fold":
                self._fold()
            case "citation":
                self.citations.setdefault(event.n, event)
            case "support":
                pass
            case "done":
                self._done(event)
            case "error":
                self._error(event)

    def end(self) -> None:
        """The turn is over, however it ended; safe to call twice."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def stopped(self) -> None:
        """The answer was stopped by the person."""
        self.end()
        self.console.print("\n(stopped)" if self._answering else "(stopped)", style="dim")

    def sources(self, *, everything: bool) -> None:
        """The cited sources with the sentence they were cited for; with `everything` the uncited ones too."""
        from rich.text import Text

        for n, passage in sorted(self.evidence.items()):
            citation = self.citations.get(n)
            if citation is None and not everything:
                continue
            label = Text(f"[{n}] ", style=NUMBER_STYLE)
            label.append(place(passage.title, passage.heading, passage.page), style="bold" if citation else "dim")
            label.append(f"  {sanitize_line((citation and citation.url) or passage.source)}", style="dim")
            self.console.print(label)
            text = sanitize_line(without_links(citation.quote if citation else passage.text))
            self.console.print(Text(f"    {_shorten(text)}", style="italic" if citation else "dim"))

    def open(self, n: int, document: DocumentText) -> None:
        """The section around evidence `n` with its passage and the cited sentence marked."""
        from rich.rule import Rule
        from rich.text import Text

        passage = self.evidence[n]
        self.console.print(Rule(Text(f"[{n}] {place(passage.title, passage.heading, passage.page)}", style="bold")))
        self.console.print(Text(sanitize_line(passage.source), style="dim"))
        start, end = passage.start, passage.end
        for section in document.sections:
            if section.start <= passage.start < section.end:
                start, end = section.start, max(section.end, passage.end)
        marks = [(passage.start, passage.end, "bold")]
        if (citation := self.citations.get(n)) is not None:
            marks.append((citation.start, citation.end, QUOTE_STYLE))
        self.console.print(_marked(document.text, start, end, marks))
        self.console.print(Rule())

    def _searched_for(self, event: RewriteEvent) -> None:
        from rich.text import Text

        others = [
            VARIANT_WORDS.get(variant.name, variant.name)
            for variant in event.variants
            if variant.text not in (event.text, event.question)
        ]
        if event.text != event.question or others:
            line = Text("searched for: ", style="dim")
            line.append(sanitize_line(event.text), style="dim italic")
            if others:
                line.append(f"  (with {', '.join(others)})", style="dim")
            self.console.print(line)
        if event.decision in ("refused", "failed") and event.reason:
            self.console.print(Text(f"question kept as typed: {sanitize_line(event.reason)}", style="dim"))

    def _token(self, text: str) -> None:
        from rich.text import Text

        self.end()
        self._answering = True
        line = Text(text)
        line.highlight_regex(MARKER, NUMBER_STYLE)
        self.console.print(line, end="", soft_wrap=True)

    def _fold(self) -> None:
        from rich.text import Text

        self.citations = {}
        self.console.print()
        self.console.print(Text("(the documents do not bear this out; they say:)", style="yellow"))
        self.console.print()

    def _done(self, event: DoneEvent) -> None:
        from rich.text import Text

        self.end()
        self.turn_id = event.turn_id
        for citation in event.citations:
            self.citations.setdefault(citation.n, citation)
        self.console.print()
        if event.finish_reason == "length":
            self.console.print("(the answer was cut at its longest allowed length)", style="yellow")
        if event.alternatives:
            how = (
                "type its number or some of its words, or say more"
                if self.talking
                else "ask again and name one of these"
            )
            self.console.print(f"(asked back: {how})", style="yellow")
        if event.warning:
            self.console.print(Text(sanitize_line(event.warning), style="yellow"))
        for sentence in event.support:
            if not sentence.supported:
                sentence_text = sanitize_line(event.answer[sentence.answer_start : sentence.answer_end])
                how = "the passage says something else" if sentence.contradicted else "not supported by what it cites"
                self.console.print(Text(f"{how}: {_shorten(sentence_text)}", style="yellow"))
        if event.dropped_citations:
            self.console.print(
                f"({event.dropped_citations} citations of sources that do not exist were removed)", style="yellow"
            )
        self.sources(everything=False)

    def _error(self, event: ErrorEvent) -> None:
        from rich.text import Text

        self.end()
        self.turn_id = event.turn_id
        if self._answering:
            self.console.print()
        self.console.print(Text(f"error: {sanitize_line(event.message)}", style="bold red"))


def _shorten(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1].rstrip()}…"


def _marked(text: str, start: int, end: int, marks: list[tuple[int, int, str]]) -> Text:
    """`text[start:end]` with styles; in pieces, for rich drops some characters, and offsets must stay true."""
    from rich.text import Text

    borders = sorted({start, end, *(edge for low, high, _ in marks for edge in (low, high) if start < edge < end)})
    line = Text()
    for low, high in pairwise(borders):
        styles = [style for first, last, style in marks if first <= low and high <= last]
        line.append(text[low:high], style=styles[-1] if styles else "")
    return line
