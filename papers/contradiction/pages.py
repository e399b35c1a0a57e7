"""Pages as sentences with what stands beside them, and what people asked of them with answers and quotes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex

from evaluation.questions import json_rows
from index.documents import Document
from index.errors import LoadError
from index.loaders.files import load
from index.loaders.markdown import outline
from papers.contradiction.edits import Siblings
from server.turn.support import evidence_text, plain
from text.sentences import sentences, table_rows
from text.words import stems

UNSEEN = ("helm", "pi-hole", "uv", "mkdocs-material")
"""Products that nothing is trained on: figures are theirs."""
SHARE_UNSEEN = 5
"""One document of so many of Doc2Dial is not trained on either."""
SHORTEST, LONGEST = 25, 420
"""Characters of a sentence that is edited."""
_SAYS = regex.compile(r"\p{Ll}{2,}.*\s.*\p{Ll}{2,}.*\s\S", regex.DOTALL)


@dataclass(frozen=True, slots=True)
class Placed:
    """A sentence of a page as words, its section's number, and whether it states something that can be turned."""

    text: str
    section: int
    stems: frozenset[str]
    states: bool


@dataclass(frozen=True)
class Page:
    """A page's sentences in reading order; code blocks stand among them and state nothing."""

    document: Document
    product: str
    headings: tuple[str, ...]
    sentences: tuple[Placed, ...]

    @property
    def id(self) -> str:
        """Its path as quotes name it, or its id in Doc2Dial."""
        return self.document.id

    def beside(self, place: int) -> tuple[list[str], int]:
        """The sentences of the same section, and where this one is among them."""
        section = self.sentences[place].section
        first = next(n for n, sentence in enumerate(self.sentences) if sentence.section == section)
        return [sentence.text for sentence in self.sentences if sentence.section == section], place - first

    def evidence(self, place: int) -> str:
        """The sentence with its neighbours, as the model reads it."""
        texts, own = self.beside(place)
        return evidence_text(self.headings[self.sentences[place].section], texts, own)

    def held(self, place: int) -> frozenset[str]:
        """The stems of the sentence and of those on either side in its section."""
        near = self.sentences[max(0, place - 1) : place + 2]
        return frozenset().union(*(one.stems for one in near if one.section == self.sentences[place].section))

    def siblings(self, place: int) -> Siblings:
        """Texts of its section, nearest first, and of the page."""
        texts, own = self.beside(place)
        nearest = sorted((n for n in range(len(texts)) if n != own), key=lambda n: abs(n - own))
        return Siblings([texts[n] for n in nearest], [sentence.text for sentence in self.sentences])

    def locate(self, text: str) -> list[int]:
        """The sentences that a quote of the page overlaps; the one nearest in words where none holds it."""
        wanted = frozenset(stems(text))
        if not wanted:
            return []
        bare = plain(text)
        exact = [
            n
            for n, sentence in enumerate(self.sentences)
            if len(sentence.text) >= 15 and (sentence.text in bare or bare in sentence.text)
        ]
        if exact:
            return exact
        shares = [len(wanted & sentence.stems) / len(wanted) for sentence in self.sentences]
        best = max(range(len(shares)), key=shares.__getitem__, default=None)
        return [best] if best is not None and shares[best] >= 0.5 else []


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of a page from quotes of it. `question` is the one it answers, in full; empty where nobody asked."""

    page: str
    dialog: str
    question: str
    text: str
    quotes: tuple[str, ...]


def page_of(document: Document, product: str) -> Page:
    """A document cut into sentences; rows of tables are said with the names of their columns."""
    headings, placed = list[str](), list[Placed]()
    for section in document.sections:
        own = document.text[section.start : section.end]
        rows = table_rows(own)
        for sentence in sentences(own):
            said = rows.get(sentence.start, own[sentence.start : sentence.end])
            if bare := plain(said):
                states = (
                    sentence.kind != "code"
                    and SHORTEST <= len(bare) <= LONGEST
                    and bare[-1] not in ":?"
                    and bool(_SAYS.search(bare))
                )
                placed.append(Placed(bare, len(headings), frozenset(stems(bare)), states))
        headings.append(section.heading[-1] if section.heading else document.title)
    return Page(document, product, tuple(headings), tuple(placed))


def product_pages(data: Path, *, unseen: bool) -> dict[str, Page]:
    """The pages of all products by the path that quotes name; those never trained on, or the others."""
    root = data / "product_docs"
    pages: dict[str, Page] = {}
    for product in sorted(path.name for path in root.iterdir() if path.is_dir()):
        if (product in UNSEEN) != unseen:
            continue
        for path in sorted((root / product).rglob("*")):
            if path.suffix.lower() in (".md", ".mdx", ".rst"):
                name = path.relative_to(root).as_posix()
                try:
                    [document] = load(path, name)
                except LoadError:
                    continue
                pages[name] = page_of(document, product)
    return pages


def doc2dial_pages(data: Path, *, unseen: bool) -> dict[str, Page]:
    """The documents of Doc2Dial by their ids; the fifth that is never trained on, or the others."""
    pages = {}
    for _, row in json_rows(data / "doc2dial" / "documents.jsonl"):
        if is_unseen(row["_id"]) == unseen:
            structure = outline(row["text"])
            document = Document(row["_id"], row["title"], row["text"], structure.sections)
            pages[document.id] = page_of(document, "doc2dial")
    return pages


def is_unseen(document: str) -> bool:
    """Whether a document of Doc2Dial is kept from training."""
    return hashlib.sha256(document.encode()).digest()[0] % SHARE_UNSEEN == 0


def written_answers(path: Path) -> Iterator[Told]:
    """Answers of dialogs over product documentation, each with the quotes that it was written from."""
    for _, row in json_rows(path):
        for asked, said in _exchanges(row["turns"]):
            quotes = asked.get("evidence") or []
            for page in dict.fromkeys(quote["document"] for quote in quotes):
                own = tuple(quote["quote"] for quote in quotes if quote["document"] == page)
                if asked.get("answerability") == "answerable":
                    yield Told(page, row["dialog_id"], asked["rewrite"], said["text"], own)


def synthetic_answers(data: Path) -> Iterator[Told]:
    """Answers of the synthetic dialogs, and the propositions that these were written from, which nobody asked for."""
    found: dict[str, dict[str, Any]] = {
        row["_id"]: row for _, row in json_rows(data / "synthetic" / "propositions.jsonl")
    }
    for row in found.values():
        yield Told(row["document_id"], row["document_id"], "", row["text"], (row["source"],))
    for _, row in json_rows(data / "synthetic" / "dialogs.train.jsonl"):
        for asked, said in _exchanges(row["turns"]):
            relevant = [found[name] for name in asked.get("relevant") or () if name in found]
            for page in dict.fromkeys(one["document_id"] for one in relevant):
                own = tuple(one["source"] for one in relevant if one["document_id"] == page)
                yield Told(page, row["dialog_id"], asked["rewrite"], said["text"], own)


def agents_answers(data: Path) -> Iterator[Told]:
    """Sentences that agents of Doc2Dial, people, said from a document; questions back are left out."""
    for _, row in json_rows(data / "doc2dial" / "dialogs.jsonl"):
        for asked, said in pairwise(row["turns"]):
            grounds, text = asked.get("grounding_text") or "", said["text"]
            if asked["role"] == "user" and said["role"] == "assistant" and grounds and not text.endswith("?"):
                for page in asked.get("documents") or ():
                    yield Told(page, row["dialog_id"], "", text, (grounds,))


def _exchanges(turns: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for asked, said in pairwise(turns):
        if asked["role"] == "user" and said["role"] == "assistant":
            yield asked, said
