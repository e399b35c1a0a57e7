"""Held-out questions and where in the documents their answers stand.

Two sources: dialogs that a language model wrote from propositions, each of which knows its place, and rule-made
conversations, whose answers are sentences of the document and are found in it again.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import regex

from rewriter.conversation import Conversation, Turn
from rewriter.examples import RewriteExample, normalised, read_examples

if TYPE_CHECKING:
    from index.query import Hit

_PART = regex.compile(r"#part\d+$")
SHORTEST = 5
"""A reply of fewer words says too little to find its place by."""


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a document's text that answers a question; offsets count characters."""

    document_id: str
    start: int
    end: int

    @property
    def id(self) -> str:
        """Names the place in a run."""
        return f"{self.document_id}\x1f{self.start}\x1f{self.end}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its conversation and what answers it. `places` may be empty where only the document is known."""

    example: RewriteExample
    places: tuple[Place, ...]
    documents: tuple[str, ...]

    @property
    def conversation(self) -> Conversation:
        """What was said before."""
        return self.example.conversation


def ranking(asked: Asked, hits: Sequence[Hit]) -> list[str]:
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


def from_dialogs(dialogs: Path, propositions: Path) -> Iterator[Asked]:
    """The questions of a file of annotated dialogs, in order. Raises BadStore where a file is spoilt."""
    from synth.dialogs.rows import read_dialogs
    from synth.propositions.store import read_propositions

    places = {
        proposition.id: tuple(Place(s.document_id, s.start, s.end) for s in proposition.sources)
        or (Place(proposition.document_id, proposition.start, proposition.end),)
        for proposition in read_propositions(propositions)
    }
    for dialog in read_dialogs(dialogs):
        history: list[Turn] = []
        for n, turn in enumerate(dialog.turns):
            if turn.asks and history:
                example = RewriteExample(
                    f"{dialog.dialog_id}#{n}", tuple(history), turn.text, turn.rewrite or turn.text, "synth"
                )
                known = tuple(place for one in turn.relevant or () for place in places.get(one, ())[:1])
                yield Asked(example, known, tuple(dict.fromkeys(place.document_id for place in known)))
            history.append(Turn(turn.role, turn.text))


def from_rules(rows: Path, text_of: Callable[[str], str]) -> Iterator[Asked]:
    """Rule-made rows whose conversation went on: the reply they got is looked up in the document they are about.

    `text_of` gives the text of a document, or an empty one where the collection has none of that id.
    """
    examples = list(read_examples(rows))
    documents = dict(_documents(rows))
    replies = {
        (example.dialog, asked.text): reply.text
        for example in examples
        for asked, reply in zip(example.history, example.history[1:], strict=False)
        if (asked.role, reply.role) == ("user", "assistant")
    }
    texts: dict[str, str] = {}
    for example in examples:
        document = documents.get(example.id, "")
        reply = replies.get((example.dialog, example.question), "")
        if not (example.history and document and reply):
            continue
        place = find(document, texts.setdefault(document, text_of(document)), reply)
        if place is not None:
            yield Asked(example, (place,), (document,))


def find(document_id: str, text: str, reply: str) -> Place | None:
    """Where `text` says the words of `reply` in their order; what stands between words, and a leading yes, are free."""
    words = normalised(reply).split()
    if words[:1] in (["yes"], ["no"]):
        words = words[1:]
    if len(words) < SHORTEST:
        return None
    # Markup stands between the words of a document; a few characters of it, never a sentence.
    pattern = r"[^\p{L}\p{N}]{1,12}".join(regex.escape(word) for word in words)
    try:
        found = regex.search(pattern, text, regex.IGNORECASE, timeout=2.0)
    except TimeoutError:
        return None
    return Place(document_id, found.start(), found.end()) if found else None


def _documents(rows: Path) -> Iterator[tuple[str, str]]:
    opening = gzip.open if rows.suffix == ".gz" else open
    with opening(rows, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield str(row["id"]), document_of(row)


def document_of(row: Mapping[str, Any]) -> str:
    """The document a rule-made row is about; the parts into which a long one was cut count as the whole."""
    return _PART.sub("", str(row.get("document", "")))
