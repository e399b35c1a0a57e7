"""Markdown and MDX: the source is the text, its headings make the sections.

`Document.text` is the file itself (line ends normalised, code that it takes from files beside it put in), so every
offset points into the source.
Front matter, comments, and the import and export lines of MDX belong to no section. `outline` is
shared by the loaders that turn their format into Markdown first.
"""

from __future__ import annotations

import datetime
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from index.documents import Document, Metadata, MetadataValue, Section
from index.errors import LoadError
from index.loaders.reading import one_line, read_text, title_from_name
from text.sanitize import web_address
from text.sentences import block_parser, blocks, line_starts, trim

_MAX_BLOCK = 64 * 1024
_FRONT_MATTER = re.compile(r"---[^\S\n]*\n((?:.*\n)*?)(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)")
_MAX_KEYS = 32
_MAX_KEY = 64
_MAX_VALUE = 512
_RESERVED = frozenset({"title", "source", "format", "url"})
_BIGGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Values of the front matter, and `end`, the offset behind it (0 without front matter)."""

    end: int = 0
    title: str = ""
    url: str = ""
    metadata: Metadata = field(default_factory=dict)


def read_front_matter(text: str) -> FrontMatter:
    """The front matter of `text`, which must use ``\\n`` line ends."""
    block = _FRONT_MATTER.match(text, 0, _MAX_BLOCK)
    return _parse(block[1], block.end()) if block else FrontMatter()  # one never closed is a rule across the page


def flat_metadata(values: Mapping[Any, Any]) -> dict[str, MetadataValue]:
    """The scalars of `values` that a filter can use, bounded in number and length; the rest is left out."""
    flat: dict[str, MetadataValue] = {}
    for key, value in values.items():
        if len(flat) >= _MAX_KEYS:
            break
        if not isinstance(key, str) or key != one_line(key, _MAX_KEY) or not key or key in _RESERVED:
            continue
        scalar = _scalar(value)
        if scalar is not None:
            flat[key] = scalar
    return flat


def _scalar(value: object) -> MetadataValue | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _BIGGEST else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        words = one_line(value, 2 * _MAX_VALUE)
        return words if 0 < len(words) <= _MAX_VALUE else None  # a value cut short would equal nothing
    return None


def _parse(block: str, end: int) -> FrontMatter:
    import yaml

    try:
        values = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return FrontMatter(end)
    if not isinstance(values, dict):
        return FrontMatter(end)
    title = values.get("title")
    url = next(filter(None, (web_address(values.get(key)) for key in ("url", "source", "canonical_url"))), "")
    return FrontMatter(end, one_line(title) if isinstance(title, str) else "", url, flat_metadata(values))


LONGEST = 32_768
"""Bytes of a file that is taken in; a longer one is not."""
MOST = 50
"""Files taken into one page."""

_LINE = re.compile(
    r"^[ \t]*(?:\{\*[ \t]+(?P<file>[^\s{}*]+)(?P<how>[^{}*\n]*)\*\}"
    r"|--8<--[ \t]+[\"'](?P<snippet>[^\"'\n]+)[\"'])[ \t]*$",
    re.MULTILINE,
)
_LINES = re.compile(r"\bln\[([\d:,\s]+)\]")
_LANGUAGES = {
    ".py": "python", ".js": "javascript", ".ts": "typescript", ".sh": "bash", ".sql": "sql", ".go": "go", ".rs": "rust",
    ".java": "java", ".c": "c", ".cpp": "cpp", ".css": "css", ".html": "html",
}  # fmt: skip


def included(text: str, path: Path, document_id: str) -> str:
    """`text` of the page at `path` with the code it takes in; the folder is what `document_id` is below."""
    if "{*" not in text and "--8<--" not in text:
        return text
    root = path.parents[document_id.count("/")] if path.as_posix().endswith(f"/{document_id}") else path.parent
    pieces, at, end_of_last = list[str](), 0, 0
    for block in blocks(text):
        if block.kind != "prose":
            continue
        for line in _LINE.finditer(text, block.start, block.end):
            end_of_last += 1
            code = _code(line["file"] or line["snippet"], path, root.resolve()) if end_of_last <= MOST else None
            pieces += [text[at : line.start()], _fenced(*code, line["how"] or "") if code else ""]
            at = line.end()
    return "".join((*pieces, text[at:]))


def _code(named: str, path: Path, root: Path) -> tuple[str, str] | None:
    """The file's language and text; None where there is none to be had."""
    for candidate in _candidates(named, path, root):
        parts = candidate.relative_to(root).parts
        language = _LANGUAGES.get(candidate.suffix.lower())
        if language and candidate.is_file() and not any(part.startswith(".") for part in parts):
            try:
                return language, read_text(candidate, LONGEST)
            except LoadError:
                return None
    return None


def _candidates(named: str, path: Path, root: Path) -> Iterator[Path]:
    """Where the file may be: as named from the page, or below one of the folders above it."""
    below = re.sub(r"^(?:\.{1,2}/)+", "", named)
    here = path.parent.resolve()
    for folder, name in ((here, named), *((folder, below) for folder in (here, *here.parents))):
        if folder.is_relative_to(root):
            candidate = (folder / name).resolve()
            if candidate.is_relative_to(root):
                yield candidate


def _fenced(language: str, code: str, how: str) -> str:
    lines = code.rstrip("\n").split("\n")
    if ranges := _LINES.search(how):
        wanted = list[str]()
        for part in ranges[1].split(","):
            first, _, last = part.strip().partition(":")
            if first.isdecimal():
                wanted += lines[int(first) - 1 : int(last) if last.isdecimal() else int(first)]
        lines = wanted or lines
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join((f"{fence}{language}", *lines, fence))


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
    """Structure of a Markdown text: its first h1 (or ""), its sections."""

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
                position = text.find(child.content, at, end)
                if position >= 0:
                    at = position + len(child.content)
                    yield position, at


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
    edges = [start, *chain(*holes[first:last]), end]
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        begin, stop = trim(text, left, right)
        if begin < stop:
            # Keep the first line's indentation: it carries meaning in lists and code.
            line = text.rfind("\n", max(0, left - 1), begin) + 1
            yield Section(names, line if line >= left else begin, stop)
