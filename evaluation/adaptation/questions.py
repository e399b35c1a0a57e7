"""Held-out questions and where in the documents their answers stand.

They are of dialogs that a language model wrote from propositions, each of which knows its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.conversation import Conversation, Message
from rewriter.examples import RewriteExample

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


@dataclass(frozen=True, slots=True)
class HeldOutQuestion:
    """A question with its conversation and what answers it. `places` may be empty where only the document is known."""

    example: RewriteExample
    places: tuple[AnswerSpan, ...]
    documents: tuple[str, ...]

    @property
    def conversation(self) -> Conversation:
        """What was said before."""
        return self.example.conversation


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
                example = RewriteExample(
                    f"{dialog.dialog_id}#{n}", tuple(history), turn.text, turn.rewrite or turn.text, "synth"
                )
                known = tuple(place for one in turn.relevant or () for place in places.get(one, ())[:1])
                yield HeldOutQuestion(example, known, tuple(dict.fromkeys(place.document_id for place in known)))
            history.append(Message(turn.role, turn.text))
