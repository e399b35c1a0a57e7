"""One turn as a person sees it: events of a running turn, or a stored one, to HTML.

`TurnView` gathers what is known so far; `html` is the question with its answer, `sources_html` the
evidence beside it. It talks to nobody: `ui.chat` feeds it and sends what it says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from markupsafe import Markup

from server.chat import (
    CitationEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    Evidence,
    EvidenceEvent,
    Feedback,
    FoldEvent,
    NearestEvent,
    Quotation,
    RewriteEvent,
    StepEvent,
    StoredTurn,
    SupportEvent,
    TokenEvent,
    reading_numbers,
)
from text.languages import gettext, message, ngettext
from ui.annotations import Annotation, Chip, Doubt
from ui.safe_html import link_target, render_markdown
from ui.source_panel import ranking_name, sources_html
from ui.templates import render

_MARKER = re.compile(r"\[(\d{1,3})\]")
_UNSUPPORTED = message("This sentence could not be matched with what it cites.")
_UNCITED = message("This sentence cites no source.")
_CONTRADICTED = message("The passage says something else.")

_STEPS = (
    message("Rewrite"),
    message("Search"),
    message("Rerank"),
    message("Generate"),
    message("Part"),
    message("First token"),
    message("Total"),
)
"""Steps of a turn, whose seconds are shown."""

REASONS = {
    "up": (message("Right"), message("Well explained"), message("Good sources")),
    "down": (
        message("Wrong"),
        message("Incomplete"),
        message("Wrong sources"),
        message("Should have known"),
        message("Hard to follow"),
    ),
}


class Decision(NamedTuple):
    """A rewriter's decision in words; `details` are for agents."""

    label: str
    explanation: str
    details: str = ""


class Notice(NamedTuple):
    """Something a person must be told about a turn; `kind` is a class of the style sheet."""

    kind: str
    text: str


def describe(rewrite: RewriteEvent, edited: bool) -> Decision:
    """Describe the decision about the question, and its reason."""
    reason = f" ({rewrite.reason.rstrip('.')})" if rewrite.reason else ""
    parts = list[str]()
    if rewrite.rewriter not in ("", "none"):
        parts.append(gettext("Rewriter: %(name)s.", name=rewrite.rewriter))
    if rewrite.confidence is not None:
        parts.append(gettext("Confidence: %(percent)s.", percent=f"{rewrite.confidence:.0%}"))
    details, as_typed = " ".join(parts), gettext("The question was searched as typed.")
    match "edited" if edited else rewrite.decision:
        case "edited" if rewrite.text == rewrite.question:
            message = gettext("The search left the conversation out, as you chose.")
            return Decision(gettext("as a new question"), message)
        case "edited":
            message = gettext("The search used the words you chose instead of the question.")
            return Decision(gettext("your words"), message)
        case "rewrite":
            message = gettext("The question leans on the conversation, so it was rewritten to stand on its own.")
            return Decision(gettext("rewritten"), message, details)
        case "expand":
            message = gettext(
                "The question leans on the conversation, so words of it were added to the search: %(words)s.",
                words=", ".join(rewrite.expansion),
            )
            return Decision(gettext("with words of the conversation"), message, details)
        case "parts":
            message = gettext("The question asks for several things, so each was searched and answered alone.")
            return Decision(gettext("asked in parts"), message)
        case "reply":
            message = gettext(
                "This answers the question back, so it was searched together with the question before that."
            )
            return Decision(gettext("your reply"), message, details)
        case "refused":
            message = gettext("A rewrite was turned down%(reason)s; the typed question was searched.", reason=reason)
            return Decision(gettext("searched as typed"), as_typed, f"{message} {details}")
        case "failed":
            message = gettext("Rewriting failed%(reason)s; the typed question was searched.", reason=reason)
            return Decision(gettext("searched as typed"), as_typed, f"{message} {details}")
    if len(rewrite.variants) > 1:
        message = gettext("The question was searched as typed, along with the turns before it.")
        return Decision(gettext("with the conversation"), message, details)
    return Decision("", as_typed, details)


@dataclass
class TurnView:
    """State of a turn. `key` is unique on the page; `id` is there once the turn is kept."""

    key: str
    question: str
    collection: str
    search_for: str | None = None
    id: str | None = None
    rewrite: RewriteEvent | None = None
    evidence: EvidenceEvent | None = None
    nearest: list[Quotation] = field(default_factory=list)
    sure: bool = False
    """Whether one of the nearest sentences probably answers."""
    step: StepEvent | None = None
    text: str = ""
    folded: str = ""
    """What a model wrote and the documents do not bear out."""
    citations: list[CitationEvent] = field(default_factory=list)
    support: list[SupportEvent] = field(default_factory=list)
    done: DoneEvent | None = None
    error: ErrorEvent | None = None
    feedback: Feedback | None = None
    problem: str = ""
    state: str = "running"
    traced: bool = False
    """Whether whoever looks may see its trace."""
    ratable: bool = True
    """Whether whoever looks may rate it."""
    own: bool = True
    """Whether whoever looks may ask it anew."""
    versions: Sequence[str] = ()
    """The versions of the turn, oldest first."""
    anchors: str = ""
    """With it citations are links to `#ANCHORS-NUMBER`, for a page without scripts."""

    @classmethod
    def of(cls, stored: StoredTurn, *, ratable: bool = True, own: bool = True, traced: bool = False) -> TurnView:
        """A turn as it was kept."""
        place = stored.id, stored.question, stored.collection, stored.search_for
        view = cls(*place, stored.id, ratable=ratable, own=own, traced=traced, feedback=stored.feedback)
        view.text, view.versions = stored.answer, stored.versions
        for event in (stored.rewrite, stored.evidence, stored.done, stored.error):
            if event is not None:
                view.add(event)
        view.text = view.text or stored.answer
        view.state = "running" if stored.status == "pending" else stored.status
        return view

    def add(self, event: Event) -> None:
        match event:
            case RewriteEvent():
                self.rewrite = event
            case EvidenceEvent():
                self.evidence = event
            case NearestEvent():
                self.nearest, self.sure = event.quotes, event.sure
            case StepEvent():
                self.step = event
            case TokenEvent():
                self.text += event.text
            case FoldEvent():
                self.folded, self.text = self.text[event.start :], self.text[: event.start]
                self.citations = [cited for cited in self.citations if cited.answer_start < event.start]
                self.support = [judged for judged in self.support if judged.answer_start < event.start]
            case CitationEvent():
                self.citations.append(event)
            case SupportEvent():
                place = event.answer_start, event.answer_end
                others = [item for item in self.support if (item.answer_start, item.answer_end) != place]
                self.support = [*others, event]
            case DoneEvent():
                self.done, self.state, self.id = event, event.status, event.turn_id
                self.text, self.citations, self.support = event.answer, event.citations, event.support
                self.folded = event.folded
            case ErrorEvent():
                self.error, self.state, self.id = event, "failed", event.turn_id
                self.text = event.answer or self.text

    def stop(self) -> None:
        self.state = "interrupted"

    def refuse(self, problem: str) -> None:
        """The turn did not begin; `problem` says why and what to do."""
        self.state, self.problem = "failed", problem

    @property
    def leans(self) -> bool:
        """Whether the conversation had a part in the search."""
        variants = {variant.name for variant in self.rewrite.variants} if self.rewrite else set[str]()
        return bool(variants - {"typed", "rewritten", "reply"})

    @property
    def passages(self) -> Sequence[Evidence]:
        return self.evidence.passages if self.evidence else ()

    @property
    def shown_citations(self) -> list[CitationEvent]:
        """The turn's citations; for one that was cut short, those its markers name."""
        if self.citations or self.state in ("running", "answered", "quoted", "asked", "refused"):
            return self.citations
        passages = {passage.n: passage for passage in self.passages}
        pairs = [(marker, passages.get(int(marker[1]))) for marker in _MARKER.finditer(self.text)]
        return [_whole(passage, marker) for marker, passage in pairs if passage is not None]

    @property
    def numbers(self) -> dict[int, int]:
        """The number that a person reads for each source."""
        cited = sorted(self.shown_citations, key=lambda citation: citation.answer_start)
        return reading_numbers((citation.n for citation in cited), (passage.n for passage in self.passages))

    def _annotations(self) -> list[Annotation]:
        numbers = self.numbers
        marks: list[Annotation] = [
            Chip(
                cited.answer_start,
                cited.answer_end,
                cited.n,
                numbers[cited.n],
                key,
                _label(cited),
                f"#{self.anchors}-{numbers[cited.n]}" if self.anchors else "",
                cited.attributed,
            )
            for key, cited in enumerate(self.shown_citations)
        ]
        for sentence in self.support:
            if not sentence.supported:
                note = _CONTRADICTED if sentence.contradicted else _UNSUPPORTED if sentence.cited else _UNCITED
                place = sentence.answer_start, sentence.answer_end
                marks.append(Doubt(*place, gettext(note), contradicted=sentence.contradicted))
        return marks

    def cited_sources(self) -> list[dict[str, Any]]:
        """The sources that are cited, in the order of the numbers that people read; quotes are HTML."""
        numbers, sources = self.numbers, dict[int, dict[str, Any]]()
        for cited in self.shown_citations:
            new = {"n": cited.n, "number": numbers[cited.n], "label": _label(cited), "url": "", "quotes": []}
            source = sources.setdefault(cited.n, new)
            source["url"] = source["url"] or link_target(cited.url) or ""
            if (quote := render_markdown(cited.quote)) not in source["quotes"]:
                source["quotes"].append(quote)
        return sorted(sources.values(), key=lambda source: source["number"])

    def notices(self) -> list[Notice]:
        """List the notices about the turn, in the order of the page."""
        done, notices = self.done, list[Notice]()
        if self.problem:
            notices.append(Notice("error", self.problem))
        if self.error:
            notices.append(Notice("error", self.error.message))
        if self.state == "interrupted":
            notices.append(Notice("", gettext("Stopped before the end.")))
        if done and done.written:
            notices.append(Notice("", gettext("A person wrote this answer, no model.")))
        elif self.state == "refused":
            notices.append(Notice("refused", gettext("Other words in “Searched” may find better sources.")))
        if not done:
            return notices
        if done.finish_reason == "length":
            notices.append(Notice("", gettext("The answer reached the longest length that is set and was cut.")))
        if done.warning:
            notices.append(Notice("warning", done.warning))
        if any(citation.attributed for citation in self.citations):
            notices.append(Notice("", gettext("A dashed number is a source that the answer did not name itself.")))
        if any(not sentence.supported for sentence in self.support):
            notices.append(Notice("", gettext("Underlined: the sources named there do not bear it out.")))
        if many := done.dropped_citations:
            message = ngettext(
                "%(num)s citation of nothing in the sources was removed.",
                "%(num)s citations of nothing in the sources were removed.",
                many,
            )
            notices.append(Notice("", message))
        return notices

    def answer_html(self) -> Markup:
        """The answer so far, with its citations and doubts marked."""
        return render_markdown(self.text, self._annotations()) if self.text else Markup("")

    def html(self) -> Markup:
        """The question, what was searched for, the answer so far and what can be done with it."""
        done, rewrite = self.done, self.rewrite
        alternatives = [alternative.text for alternative in done.alternatives] if done and self.own else []
        seconds = done.seconds if done else self.error.seconds if self.error else {}
        return render(
            "turn.html",
            turn=self,
            answer=self.answer_html(),
            search_text=self.search_for or (rewrite.text if rewrite else self.question),
            decision=describe(rewrite, self.search_for is not None) if rewrite else None,
            alternatives=alternatives,
            folded=render_markdown(self.folded) if self.folded else "",
            nearest=[(self.numbers.get(quoted.n, quoted.n), render_markdown(quoted.quote)) for quoted in self.nearest]
            if self.state == "running" and not self.folded
            else [],
            variants=[(ranking_name(variant.name), variant) for variant in rewrite.variants] if rewrite else [],
            timings=[(gettext(name.replace("_", " ").capitalize()), value) for name, value in seconds.items()],
            versions=self.versions if self.id in self.versions and len(self.versions) > 1 else (),
            total=done.seconds.get("total") if done else None,
            reasons=REASONS,
        )

    def stage(self) -> str:
        if self.step is not None and (not self.text or self.step.name == "part"):
            done = self.step.done + (self.step.name == "part")
            return gettext("%(step)s (%(done)s of %(of)s)", step=gettext(self.step.text), done=done, of=self.step.of)
        if self.text:
            return gettext("Writing")
        return gettext("Reading the sources") if self.evidence else gettext("Searching")

    def sources_html(self) -> Markup:
        """The evidence, numbered, what is cited (or else nearest) highlighted; empty before the search."""
        if self.evidence is None:
            return Markup("")
        return sources_html(
            self.key,
            self.collection,
            self.evidence,
            self.shown_citations,
            self.nearest,
            numbers=self.numbers,
            turn=self.id or "",
            detailed=self.traced,
        )


def _label(cited: CitationEvent) -> str:
    return " › ".join((cited.title, *cited.heading))


def _whole(passage: Evidence, marker: re.Match[str]) -> CitationEvent:
    """A citation of a passage as a whole, with no sentence singled out."""
    same = passage.model_dump(include={"n", "passage_id", "document_id", "title", "heading", "page", "start"})
    return CitationEvent(**same, end=passage.start, quote="", answer_start=marker.start(), answer_end=marker.end())
