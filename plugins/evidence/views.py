"""Views that the evidence plugin returns to programs and pages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from server.store.records import View


class SpanView(View):
    """A stretch of a quote that was kept, added or removed; an added one is without its brackets."""

    kind: Literal["kept", "added", "removed"]
    text: str


class StandaloneQuestion(View):
    """A question that a reader of the quote alone has, and the passage it was answered from (empty: lead, title or
    paragraph)."""

    question: str
    answer: str
    passage: str


class StandaloneView(View):
    """A quote made readable away from its page. Kept and removed spans joined are the quote as the document has it."""

    document_id: str
    start: int
    end: int
    text: str = Field(description="To show and to copy: additions in brackets, what was removed left out.")
    spans: tuple[SpanView, ...]
    questions: tuple[StandaloneQuestion, ...]
    refused: str = Field(default="", description="What was not added or rewritten, and why.")
    model: str = Field(description="What was asked; `none`: rules alone.")
    cached: bool = False


class WhyPlace(View):
    """A sentence of a document: `[start, end)` of its text."""

    start: int
    end: int


class WhySentenceView(View):
    """A quoted sentence and its places in the document."""

    text: str
    places: tuple[WhyPlace, ...]


class WhyView(View):
    """Sentences of a document that support a sentence that cites it."""

    document_id: str
    collection: str
    title: str
    citance: str = Field(description="The sentence that cites the document.")
    bears: bool = Field(description="False: no sentence could be matched, and nothing is shown.")
    lead: str = Field(description="What the document begins with: its abstract, or its first paragraph.")
    lead_first: bool = Field(description="True where the lead fits the sentence, and is better read first.")
    shown: tuple[WhySentenceView, ...] = Field(description="At most five sentences; quotations in reading order.")
    cached: bool = False
