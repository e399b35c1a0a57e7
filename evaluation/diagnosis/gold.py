"""Questions whose answers are known: the lines of a file, and where in a collection the answers stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.batches.rewrites import checked_lines, json_object
from evaluation.sets.base import ROLES, Question, Quote
from evaluation.sets.dialogs import JudgedQuestion
from evaluation.sets.quotes import document_id, relevant, spans
from rewriter.protocol import Conversation, Message
from text.words import stems

if TYPE_CHECKING:
    from index.collection import Collection
    from index.query import Passage

SHAPE = '{"question": "…", "answer": "…", "history": [{"role": "user", "text": "…"}], "quotes": ["…"]}'
TWIN_WORDS = 6
"""A quote of so many words answers in any document that holds it; a shorter one may stand elsewhere by chance."""
HOLDS = 0.8
"""A passage with this share of an answer's words holds the answer, where no quote says which does."""
MOST_PASSAGES = 3
MAX_ROWS = 20_000


def read_gold(path: Path) -> list[JudgedQuestion]:
    """The questions of a file. One without an answer and without a quote is not answered in the documents.

    Raises BadRow naming up to ten bad lines by number, EvaluationError where there is nothing to read.
    """
    return checked_lines(path, _parse, SHAPE, lambda gold: gold.question.id, most=MAX_ROWS)


def _parse(line: str, number: int) -> JudgedQuestion:
    """One line; raises ValueError saying what is wrong with it."""
    row = json_object(line)
    name = row.get("id", f"line-{number}")
    name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
    if not isinstance(name, str) or name.split() != [name]:
        raise ValueError(f'its "id" {name!r} is no name without white space')
    question = _text(row, "question") or _text(row, "text")
    if not question:
        raise ValueError('no "question"')
    answer, quotes = _text(row, "answer"), tuple(_quotes(row.get("quotes") or row.get("evidence") or []))
    documents, passages = _names(row, "documents"), _names(row, "relevant")
    if not answer and not quotes and (documents or passages):
        raise ValueError('it names where the answer stands, and neither "answer" nor "quotes" says what it is')
    history = Conversation(tuple(_messages(row.get("history") or [])))
    answerability = "answerable" if answer or quotes else "unanswerable"
    typed = Question(name, name, question, history, _text(row, "rewrite"), answer=answer, answerability=answerability)
    return JudgedQuestion(typed, passages, documents, quotes)


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f'its "{key}" is not a text')
    return (value or "").strip()


def _names(row: dict[str, Any], key: str) -> tuple[str, ...]:
    value = row.get(key) or []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f'its "{key}" are no list of ids')
    return tuple(value)


def _quotes(value: object) -> list[Quote]:
    """Quotes as texts, or as objects that name their document too."""
    quotes = []
    for entry in value if isinstance(value, list) else [None]:
        parts = {"quote": entry} if isinstance(entry, str) else entry
        if not isinstance(parts, dict) or not stems(_text(parts, "quote")):
            raise ValueError('its "quotes" are no list of texts, or of objects with "document" and "quote"')
        quotes.append(Quote(_text(parts, "document"), _text(parts, "quote")))
    return quotes


def _messages(value: object) -> list[Message]:
    """Messages with `role` and `text` (or `content`), or pairs of a question and its answer."""
    messages = list[Message]()
    for place, entry in enumerate(value if isinstance(value, list) else [None], 1):
        pair = dict(zip(("question", "answer"), entry, strict=False)) if isinstance(entry, list) else entry
        if not isinstance(pair, dict):
            raise ValueError(f'{place} of "history" is neither a message nor a question with its answer')
        if "question" in pair:
            pairs = [("user", pair["question"]), ("assistant", pair.get("answer"))]
        else:
            pairs = [(ROLES.get(str(pair.get("role")), ""), pair.get("text", pair.get("content")))]
        for role, text in pairs:
            if role not in ("user", "assistant") or not isinstance(text, str):
                raise ValueError(f'{place} of "history" has no "role" (user or assistant) and "text"')
            messages.append(Message(ROLES[role], text))
    return messages


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """Where one part of an answer stands: stretches of documents and ids of passages; nowhere if there are none."""

    quote: Quote
    stretches: tuple[tuple[str, int, int], ...]
    passages: tuple[str, ...]

    def held(self, evidence: Sequence[Any]) -> bool:
        """Whether one of these passages (`document_id`, `passage_id`, `start`, `end`, `text`) holds it."""
        return any(
            row["passage_id"] in self.passages
            or (
                bool(self.quote.text and len(self.quote.text.split()) >= TWIN_WORDS)
                and bool(spans(row["text"], self.quote.text))
            )
            or any(
                document == row["document_id"]
                and 2 * (min(end, row["end"]) - max(start, row["start"])) >= min(end - start, row["end"] - row["start"])
                for document, start, end in self.stretches
            )
            for row in evidence
        )


class GoldIndex:
    """Finds answers in a collection; its texts are read once, when they are first needed."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._known = {document.id for document in collection.documents()}
        self._texts: dict[str, str] = {}
        self._passages: dict[str, list[Passage]] = {}

    def places(self, gold: JudgedQuestion) -> list[GoldPlace]:
        """Where each quote stands, or else the answer; all of them are needed. None for an unanswerable question."""
        if gold.quotes:
            return [self._quoted(quote) for quote in gold.quotes]
        if gold.question.answer:
            return [self._answered(gold)]
        return []

    def _quoted(self, quote: Quote) -> GoldPlace:
        own = document_id(quote.document, self._known)
        names = [own] if own else []
        if not quote.document or len(quote.text.split()) >= TWIN_WORDS:
            names += sorted(self._known - {own})
        stretches, passages = list[tuple[str, int, int]](), list[str]()
        for name in names:
            if matches := spans(self._text(name), quote.text):
                held = relevant(self._of(name), matches)
                passages += held
                stretches += [(name, *place) for place in matches if held]
        return GoldPlace(quote, tuple(stretches), tuple(passages))

    def _answered(self, gold: JudgedQuestion) -> GoldPlace:
        """The passages with most of the answer's words, in the documents that are named, if any."""
        names = [name_or_none for document in gold.documents if (name_or_none := document_id(document, self._known))]
        if gold.relevant:
            there = [
                passage.id for name in names or self._known for passage in self._of(name) if passage.id in gold.relevant
            ]
            return GoldPlace(Quote("", ""), (), tuple(there))
        wanted = frozenset(stems(gold.question.answer))
        every = names if gold.documents else sorted(self._known)
        scored = [
            (len(wanted & held) / max(1, len(wanted)), passage, n) for name in every
            for n, (passage, held) in enumerate(self._stems[name])
        ]  # fmt: skip
        best = sorted((pair for pair in scored if pair[0] >= HOLDS), key=lambda pair: (-pair[0], pair[2]))
        return GoldPlace(Quote("", ""), (), tuple(passage for _, passage, _ in best[:MOST_PASSAGES]))

    @cached_property
    def _stems(self) -> dict[str, list[tuple[str, frozenset[str]]]]:
        return {
            name: [(passage.id, frozenset(stems(passage.text))) for passage in self._of(name)] for name in self._known
        }

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self._collection.document(name).text
        return self._texts[name]

    def _of(self, name: str) -> list[Passage]:
        if name not in self._passages:
            self._passages[name] = self._collection.passages(name)
        return self._passages[name]
