"""From the model's sentences to propositions: aligned, checked, merged; what falls out is kept apart and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from index.encoders import Encoder
from synth.prompts import chat_prompt
from synth.propositions.align import WindowAligner
from synth.propositions.extract import LONGEST, STEP
from synth.propositions.faithful import refusal
from synth.propositions.merge import merged
from synth.propositions.store import Proposition, SourceSpan, proposition_id
from synth.propositions.windows import DocumentWindow
from synth.references import reference


class LeftOut(BaseModel):
    """A sentence of the model that became no proposition, and why.

    Reasons: `unaligned`, `reference` (it points at something it does not name), `no statement` (a heading or a
    question), `number`, `name`, `negation`, `lost negation`, `too long`.
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


def build(found: Iterable[tuple[DocumentWindow, Sequence[str]]], encoder: Encoder, model: str) -> Built:
    """Propositions of windows and the sentences written about each; in the order given."""
    aligned: list[Proposition] = []
    left_out: list[LeftOut] = []
    written = 0
    for window, sentences in found:
        written += len(sentences)
        if not sentences:
            continue
        spans = WindowAligner(window, encoder).align(sentences)
        for text, span in zip(sentences, spans, strict=True):
            document = window.document
            if len(text) > LONGEST:
                reason = "too long"
            elif span is None:
                reason = "unaligned"
            elif reference(text):
                reason = "reference"
            else:
                reason = refusal(text, window, span)
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
    kept = merged(aligned, encoder)
    return Built(written, kept, left_out, len(aligned) - len(kept))
