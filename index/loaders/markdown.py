"""Markdown and MDX: the source is the text, its headings make the sections.

`Document.text` is the file itself (line ends normalised, code that it takes from files beside it put in), so every
offset points into the source.
Front matter, comments, and the import and export lines of MDX belong to no section. `outline` is
shared by the loaders that turn their format into Markdown first.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from index.documents import Document, Section
from index.errors import LoadError
from index.loaders.front_matter import read_front_matter
from index.loaders.inclusions import included
from index.loaders.reading import one_line, read_text, title_from_name
from text.blocks import block_parser, line_starts
from text.sentences import trim

_MAX_HEADING = 200
# `{ #anchor }`, `{: .class #anchor }` and MDX's `{/* #anchor */}` behind a heading are not its words.
_ATTRIBUTES = re.compile(r"\s*\{(?::?\s*[#.][^{}]*|/\*[^{}]*\*/)\}\s*$")
_INLINE = MarkdownIt("commonmark")
_MARKUP = re.compile(r"[\\`*_~<>&!\[\]]")
_ESM = re.compile(
    r"import\s*(?:[\"'{*]|[\w$]+\s*(?:,|from\b))|export\s+(?:const|let|var|default|function|class|async|\{|\*)"
)


@dataclass(frozen=True, slots=True)
class Outline:
    """What the structure of a Markdown text says: its first h1 (or ""), its sections."""

    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    text: str
    start: int
    end: int


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read or holds nothing but front matter."""
    text = included(read_text(path, max_bytes), path, document_id)
    front = read_front_matter(text)
    structure = outline(text, mdx=path.suffix.lower() == ".mdx", skip=front.end, title=front.title)
    if not structure.sections:
        raise LoadError(f"{path.name} holds no text besides front matter and comments: fill it or exclude it")
    metadata = {**front.metadata, "source": front.url or document_id, "format": "markdown"}
    title = structure.title or title_from_name(path.name)
    return [Document(document_id, title, text, structure.sections, metadata)]


def outline(text: str, *, mdx: bool = False, skip: int = 0, title: str = "") -> Outline:
    """Title and sections of a Markdown text.

    The first `skip` characters are front matter; `title` is the one it gives, else the first h1 is
    the title. The title's own h1 is no part of any heading path.
    """
    tokens = block_parser(mdx).parse(text[skip:])
    starts = [start + skip for start in line_starts(text[skip:])]
    headings = list(_headings(text, starts, tokens))
    first = next((heading for heading in headings if heading.level == 1), None)
    title = title or (first.text if first else "")
    holes = sorted(_holes(text, starts, tokens, mdx))
    return Outline(title, tuple(_sections(text, skip, title, headings, holes)))


def _headings(text: str, starts: list[int], tokens: list[Token]) -> Iterator[_Heading]:
    """The headings that open sections: none in a quote, a list or an admonition, which they only name."""
    boxes = 0
    closed_until = 0  # the line on which the last closed `:::` container ends
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.map is not None:
            first, last = token.map
            if boxes == 0 and first >= closed_until:
                words = _plain(following.content)
                yield _Heading(int(token.tag[1]), words, starts[first], min(starts[last], len(text)))
        elif token.type.startswith("container"):
            # One left open (some tools write ::: for other things) must not swallow the page.
            if token.map is not None and _is_closed(text, starts, token):
                closed_until = max(closed_until, token.map[1])
        elif token.type != "heading_close":
            boxes += token.nesting


def _is_closed(text: str, starts: list[int], token: Token) -> bool:
    """Whether a `:::` container ends with its own fence rather than with the document."""
    assert token.map is not None
    last = token.map[1]
    # Depending on nesting the closing fence is the last line inside the range or the one behind it.
    for number in (last - 1, last):
        if token.map[0] < number < len(starts) - 1:
            line = text[starts[number] : starts[number + 1] - 1].strip()
            if line and not line.strip(token.markup[0]):
                return True
    return False


def _plain(source: str) -> str:
    """A heading's words, without markup and attribute lists."""
    source = _ATTRIBUTES.sub("", source[: 8 * _MAX_HEADING])
    if not _MARKUP.search(source):
        return one_line(source, _MAX_HEADING)
    parts: list[str] = []
    for inline in _INLINE.parseInline(source):
        for child in inline.children or []:
            if child.type in ("text", "code_inline", "image", "text_special"):
                parts.append(child.content)
            elif child.type in ("softbreak", "hardbreak"):
                parts.append(" ")
    return one_line("".join(parts), _MAX_HEADING)


def _holes(text: str, starts: list[int], tokens: list[Token], mdx: bool) -> Iterator[tuple[int, int]]:
    """Ranges that are no part of the reading text: comments, and the code lines of MDX."""
    commented, last_end = 0, text.rfind("*/}")
    for token in tokens:
        if token.map is None or token.type not in ("html_block", "inline"):
            continue
        start, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
        content = token.content.lstrip()
        if mdx and token.type == "inline" and token.level <= 1 and _ESM.match(content):
            yield start, end
        elif mdx and content.startswith("{/*"):
            begin = text.index("{/*", start)
            if begin < commented:
                continue
            closing = text.find("*/}", begin) if begin < last_end else -1
            commented = closing + 3 if closing >= 0 else end
            yield begin, commented
        elif "<!--" in content:
            yield from _comments(text, start, end, token)


def _comments(text: str, start: int, end: int, token: Token) -> Iterator[tuple[int, int]]:
    if token.type == "html_block":
        at = text.find("<!--", start, end)
        while at >= 0:
            closing = text.find("-->", at + 4, end)
            stop = closing + 3 if closing >= 0 else end
            yield at, stop
            at = text.find("<!--", stop, end)
        return
    at = start  # inside a paragraph the parser must tell comments from code that shows one
    for inline in _INLINE.parseInline(token.content):
        for child in inline.children or []:
            if child.type == "html_inline" and child.content.startswith("<!--"):
                found = text.find(child.content, at, end)
                if found >= 0:
                    at = found + len(child.content)
                    yield found, at


def _sections(
    text: str, skip: int, title: str, headings: list[_Heading], holes: list[tuple[int, int]]
) -> Iterator[Section]:
    path: list[_Heading] = []
    named = False
    edges = [*headings, _Heading(0, "", len(text), len(text))]
    yield from _pieces(text, (), skip, edges[0].start, holes)
    for heading, following in pairwise(edges):
        while path and path[-1].level >= heading.level:
            path.pop()
        outer = tuple(part.text for part in path if part.text)
        names = (*outer, heading.text) if heading.text else outer
        if heading.level == 1 and not named and heading.text == title:
            named = True
            names = ()
        else:
            path.append(heading)
        pieces = list(_pieces(text, names, heading.end, following.start, holes))
        if not pieces and following.level <= heading.level:
            # A heading with nothing under it is still something to find: it stands as its own text.
            pieces = list(_pieces(text, outer, heading.start, heading.end, holes))
        yield from pieces


def _pieces(text: str, names: tuple[str, ...], start: int, end: int, holes: list[tuple[int, int]]) -> Iterator[Section]:
    """The stretch `start`..`end` around the holes in it (sorted, disjoint); blank pieces are left out."""
    first = bisect_right(holes, start, key=itemgetter(1))
    last = bisect_left(holes, end, first, key=itemgetter(0))
    for hole_start, hole_end in holes[first:last]:
        yield from _piece(text, names, start, hole_start)
        start = hole_end
    yield from _piece(text, names, start, end)


def _piece(text: str, names: tuple[str, ...], start: int, end: int) -> Iterator[Section]:
    begin, end = trim(text, start, end)
    if begin < end:
        # Keep the first line's indentation: it carries meaning in lists and code.
        line = text.rfind("\n", max(0, start - 1), begin) + 1
        yield Section(names, line if line >= start else begin, end)
