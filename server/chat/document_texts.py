"""References, citation marks and links in the text of a document."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

import regex

from index.documents import LABELLED, LINKS, REFERENCES, Document
from index.records import DocumentInfo
from text.words import words

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


def references(document: Document) -> list[str]:
    """The entries of a document's list of references."""
    return str(document.metadata.get(REFERENCES, "")).splitlines()


def markers(text: str, entries: Sequence[str]) -> list[tuple[int, int, int]]:
    """The places of a text that name one of the entries, in their order: start, end, and the entry's number from 0.

    `12` in `[12]` is one, and `Smith and Jones, 2019`.
    """
    labels = {(match[1] or match[2]).strip(): n for n, entry in enumerate(entries) if (match := _LABEL.match(entry))}
    markers = list[tuple[int, int, int]]()
    for bracket in _BRACKETS.finditer(text) if labels else ():
        for part in _PART.finditer(text, *bracket.span(1)):
            name = regex.split(r"[–-]", part.group())[0].strip()
            if (n := labels.get(part.group().strip(), labels.get(name))) is not None:
                markers.append((*part.span(), n))
    authors = [(*_authors(entry), n) for n, entry in enumerate(entries)]
    for match in _NAMED.finditer(text) if entries else ():
        named, year = regex.findall(NAME, match[1]), match[2]
        fitting = [
            (len(every), n)
            for first, every, years, n in authors
            if year in years and named[0] in first and all(name in every for name in named[1:])
        ]
        if fitting:
            markers.append((*match.span(), min(fitting)[1]))
    return sorted(markers)


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


def linked_spans(document: Document, infos: Sequence[DocumentInfo]) -> list[tuple[int, int, str, str]]:
    """The stretches of a text that were links to documents of the collection: start, end, document, and the anchor."""
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
    return [link for link in targets if link[2]]


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
