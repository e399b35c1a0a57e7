"""Documents as they are shown: references, links, pages and images."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import regex
from pydantic import Field

from index.documents import LABELLED, LINKS, REFERENCES, Document
from index.errors import LoadError, PageMissing
from index.loaders.reading import read_bytes
from index.loaders.sandbox import Limits, PagePicture, shared_pool
from index.records import DocumentInfo
from server.chat.base import Conflict, NotFound, Unavailable
from server.store.records import View
from text.words import words


class DocumentSummary(View):
    """A document of a collection. `removable` is true for uploads, which this server may delete."""

    id: str
    title: str
    source: str
    format: str
    passages: int
    removable: bool
    warning: str = Field(default="", description="What of its file was left out, and why.")


class SectionView(View):
    """One section's place in a document's text."""

    heading: tuple[str, ...]
    start: int
    end: int
    page: int | None


class ReferenceView(View):
    """An entry of a document's list of references, and the document of the collection that it names, or empty."""

    text: str
    document_id: str


class MarkerView(View):
    """A place in a document's text that names the entry `reference` (from 0) of its list of references."""

    start: int
    end: int
    reference: int


class LinkView(View):
    """A stretch of a document's text that leads to another document, at the heading of that anchor if it has one."""

    start: int
    end: int
    document_id: str
    anchor: str = ""


class DocumentText(View):
    """A document's text as it was indexed; citations' `start` and `end` count its characters.

    `links` are the addresses of links in it that lead to documents of the collection; `linked` are the words that did
    in a file whose text here shows words alone. The list of references is no part of the text.
    """

    id: str
    title: str
    source: str
    text: str
    sections: tuple[SectionView, ...]
    references: tuple[ReferenceView, ...] = ()
    markers: tuple[MarkerView, ...] = ()
    links: Mapping[str, str] = {}
    linked: tuple[LinkView, ...] = ()


class PassageView(View):
    """A passage of a document as it is searched, with its place in the document's text."""

    id: str
    text: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int


class PassagePage(View):
    """Some of a document's passages, from number `offset` on, and how many there are."""

    data: list[PassageView]
    offset: int
    total: int


YEAR = r"(?:19|20)\d\d[a-z]?"


NAME = r"\p{Lu}[\p{L}'’\-]+"


NAMES = rf"{NAME}(?:(?:,? (?:and|&) |, ){NAME})*(?:,? et al\b\.?)?"

_LINK = regex.compile(r"\]\(\s*<?([^)\s<>]{1,500})|^ {0,3}\[[^\]\n]+\]:\s*<?([^\s<>]{1,500})", regex.MULTILINE)
_KINDS = (".md", ".mdx", ".rst", ".html", ".htm")
_ENDINGS = ("", *_KINDS, *(f"/index{kind}" for kind in _KINDS), "/README.md")
_LABEL = regex.compile(r"\[([^\[\]]{1,24})\]|(\d{1,3})\.?\s")
_BRACKETS = regex.compile(r"\[([^\[\]\n]{1,80})\]")
_PART = regex.compile(r"[^,;\s][^,;]*")
_NAMED = regex.compile(rf"({NAMES})(?:['’]s)?,? ?[(\[]?({YEAR})\b")
_FIRST = regex.compile(r",| and | & |\(")
_LEAST_TITLE = 3
"""Words of a title that is looked for in references."""


def document_text(document: Document, infos: Sequence[DocumentInfo]) -> DocumentText:
    """A document as it is read, among the `infos` of its collection."""
    entries = str(document.metadata.get(REFERENCES, "")).splitlines()
    cited = cited_documents(document.id, entries, infos) if entries else []
    return DocumentText(
        id=document.id,
        title=document.title,
        source=str(document.metadata.get("source", document.id)),
        text=document.text,
        sections=document.sections,
        references=tuple(ReferenceView(text=text, document_id=to) for text, to in zip(entries, cited, strict=True)),
        markers=tuple(markers(document.text, entries)),
        links=linked_documents(document, infos),
        linked=tuple(linked_spans(document, infos)),
    )


def markers(text: str, entries: Sequence[str]) -> list[MarkerView]:
    """The places of a text that name one of the entries, in their order.

    `12` in `[12]` is one, and `Smith and Jones, 2019`.
    """
    labels = {(match[1] or match[2]).strip(): n for n, entry in enumerate(entries) if (match := _LABEL.match(entry))}
    markers = list[MarkerView]()
    for bracket in _BRACKETS.finditer(text) if labels else ():
        for part in _PART.finditer(text, *bracket.span(1)):
            name = regex.split(r"[–-]", part.group())[0].strip()
            if (n := labels.get(part.group().strip(), labels.get(name))) is not None:
                markers.append(MarkerView(start=part.start(), end=part.end(), reference=n))
    authors = [(*_authors(entry), n) for n, entry in enumerate(entries)]
    for match in _NAMED.finditer(text) if entries else ():
        named, year = regex.findall(NAME, match[1]), match[2]
        fitting = [
            (len(every), n)
            for first, every, years, n in authors
            if year in years and named[0] in first and all(name in every for name in named[1:])
        ]
        if fitting:
            markers.append(MarkerView(start=match.start(), end=match.end(), reference=min(fitting)[1]))
    return sorted(markers, key=lambda marker: marker.start)


def _authors(entry: str) -> tuple[list[str], list[str], set[str]]:
    """The names of an entry's first author and of all, and its years."""
    years = list(regex.finditer(rf"\b{YEAR}\b", entry))
    by = entry[: years[0].start()] if years and years[0].start() > 5 else entry[:120]
    return regex.findall(NAME, _FIRST.split(by)[0]), regex.findall(NAME, by), {year.group() for year in years}


def cited_documents(own: str, entries: Iterable[str], infos: Iterable[DocumentInfo]) -> list[str]:
    """The document of the collection whose title each entry holds; empty where there is none."""
    titles = {
        _folded(info.title): info.id for info in infos if info.id != own and len(words(info.title)) >= _LEAST_TITLE
    }
    return [
        titles[max(matching, key=len)] if (matching := [title for title in titles if title in folded]) else ""
        for folded in map(_folded, entries)
    ]


def _folded(text: str) -> str:
    return f" {' '.join(words(text))} "


def linked_documents(document: Document, infos: Sequence[DocumentInfo]) -> Mapping[str, str]:
    """Addresses of links as they are written, and the documents of the collection that they lead to."""
    ids, sources = _known(infos)
    targets = {match[1] or match[2] for match in _LINK.finditer(document.text)}
    return {href: to for href in sorted(targets) if (to := _target(href, document.id, ids, sources))}


def _target(href: str, own: str, ids: set[str], sources: Mapping[str, str]) -> str:
    path = unquote(href.split("#")[0].split("?")[0])
    if not path or "://" in path:
        return sources.get(path.rstrip("/"), "") if path else ""
    return next((candidate for candidate in _paths(path, own) if candidate in ids and candidate != own), "")


def _paths(path: str, own: str) -> Iterator[str]:
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(own), path)).lstrip("/")
    yield from (beside + ending for ending in _ENDINGS)
    yield from (beside.removesuffix(".html") + kind for kind in (".md", ".rst"))


def linked_spans(document: Document, infos: Sequence[DocumentInfo]) -> list[LinkView]:
    """The stretches of a text that were links to documents of the collection."""
    try:
        links = [(int(a), int(b), str(href)) for a, b, href in json.loads(str(document.metadata.get(LINKS, "[]")))]
    except (ValueError, TypeError):
        return []
    (ids, sources), labels = _known(infos), dict[str, tuple[str, str]]()
    for info in infos if any(href.startswith(LABELLED) for _, _, href in links) else ():
        labels |= {label: (info.id, str(anchor)) for label, anchor in _labels(info).items()}

    def target(href: str) -> tuple[str, str]:
        if href.startswith(LABELLED):
            return labels.get(unquote(href.removeprefix(LABELLED)), ("", ""))
        return _target(href, document.id, ids, sources), unquote(href.partition("#")[2])

    targets = ((a, b, *target(href)) for a, b, href in links)
    return [LinkView(start=a, end=b, document_id=to, anchor=anchor) for a, b, to, anchor in targets if to]


def _labels(info: DocumentInfo) -> dict[str, object]:
    """A document's labels; none where its own front matter says something else under that name."""
    try:
        labels = json.loads(info.labels)
    except ValueError:
        return {}
    return labels if isinstance(labels, dict) else {}


def _known(infos: Sequence[DocumentInfo]) -> tuple[set[str], dict[str, str]]:
    """The ids of documents, and the ids of those that have an address in the web."""
    return {info.id for info in infos}, {info.source.rstrip("/"): info.id for info in infos if "://" in info.source}


LEAST_WIDTH, MOST_WIDTH = 100, 2000
"""Pixels."""

_PICTURES = 4
"""Drawn pages that are kept: one of noise has 17 MB."""
_LARGEST_IMAGE = 8 << 20
_SHOWN = re.compile(r"!\[[^\]\n]*\]\(\s*<?([^)\s>]+)|<img\s[^>]*?\bsrc\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_IMAGE_TYPES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


@dataclass(frozen=True, slots=True)
class DocumentImage:
    """An image of a document: its bytes, and what they are by their beginning."""

    data: bytes
    media_type: str


def shown_in(text: str) -> set[str]:
    """The names of the images that a text shows."""
    return {match[1] or match[2] for match in _SHOWN.finditer(text)}


def read_image(path: Path, document_id: str, name: str) -> DocumentImage | None:
    """The image that lies where the name says from `path`, below the folder that `document_id` is below."""
    root = (
        path.parents[document_id.count("/")] if path.as_posix().endswith(f"/{document_id}") else path.parent
    ).resolve()
    try:
        wanted = (path.parent / unquote(name.split("#")[0].split("?")[0])).resolve()
        hidden = wanted.is_relative_to(root) and any(part.startswith(".") for part in wanted.relative_to(root).parts)
        if not wanted.is_relative_to(root) or hidden:
            return None
        data = read_bytes(wanted, _LARGEST_IMAGE)
    except (OSError, ValueError, LoadError):
        return None
    kind = next((kind for magic, kind in _IMAGE_TYPES if data.startswith(magic)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    return DocumentImage(data, kind) if kind else None


@lru_cache(_PICTURES)
def draw(path: Path, digest: str, page: int, width: int, ocr_languages: str, max_file_mb: int) -> PagePicture:
    """Return a page of a PDF as a picture, `width` pixels wide. Raises NotFound, Conflict, Unavailable."""
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise Conflict(
                    "The file has changed since it was indexed. Index the collection again.", code="file_changed"
                )
        return shared_pool(Limits(ocr_languages=ocr_languages)).draw(path, page, width, max_file_mb)
    except OSError as error:
        raise NotFound("The document's file is not there any more.", code="page_not_found") from error
    except PageMissing as error:
        raise NotFound(str(error), code="page_not_found", param="page") from error
    except LoadError as error:
        raise Unavailable(str(error), code="page_not_drawn") from error
