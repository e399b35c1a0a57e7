"""Held-out questions and where in the documents their answers stand.

They are of dialogs that a language model wrote from propositions, each of which knows its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.sets.base import Question
from rewriter.conversation import Conversation, Message

if TYPE_CHECKING:
    from index.query import Hit


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A stretch of a document's text that answers a question; offsets count characters."""

    document_id: str
    start: int
    end: int

    @property
    def id(self) -> str:
        """Names the place in a run."""
        return f"{self.document_id}\x1f{self.start}\x1f{self.end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutQuestion(Question):
    """A question, and where what answers it stands."""

    places: tuple[AnswerSpan, ...]

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents that answer it."""
        return tuple(dict.fromkeys(place.document_id for place in self.places))


def ranking(asked: HeldOutQuestion, hits: Sequence[Hit]) -> list[str]:
    """The hits as places: one that holds places of the question's as those, any other under its own id."""
    found: list[str] = []
    for hit in hits:
        passage = hit.passage
        held = [
            place.id
            for place in asked.places
            if place.document_id == passage.document_id and place.start < passage.end and passage.start < place.end
        ]
        found += [one for one in held or [passage.id] if one not in found]
    return found


def from_dialogs(dialogs: Path, propositions: Path) -> Iterator[HeldOutQuestion]:
    """The questions of a file of annotated dialogs, in order. Raises BadStore where a file is spoilt."""
    from synth import read_dialogs, read_propositions

    places = {
        proposition.id: tuple(AnswerSpan(s.document_id, s.start, s.end) for s in proposition.sources)
        or (AnswerSpan(proposition.document_id, proposition.start, proposition.end),)
        for proposition in read_propositions(propositions)
    }
    for dialog in read_dialogs(dialogs):
        history: list[Message] = []
        for n, turn in enumerate(dialog.turns):
            if turn.asks and history:
                yield HeldOutQuestion(
                    id=f"{dialog.dialog_id}#{n}",
                    dialog=dialog.dialog_id,
                    text=turn.text,
                    conversation=Conversation(tuple(history)),
                    rewrite=turn.rewrite or turn.text,
                    places=tuple(place for one in turn.relevant or () for place in places.get(one, ())[:1]),
                )
            history.append(Message(turn.role, turn.text))
