"""An HTML tree and how it becomes Markdown, in time that grows with the page and no faster.

BeautifulSoup keeps the tree and markdownify writes it; both take the square of the time, or recurse, where pages nest
without end or repeat one thing without end. What such pages do beyond every honest page is given up here: structure
below `_MOST_DEEP` elements, and of lists, quotes and tables below `_MOST_INDENTED` of them; their words stay. Which
part of a page is read is `index.loaders.html`'s.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from index.documents import LINKS, MetadataValue
from index.errors import LoadError
from index.loaders.reading import clean, one_line

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from bs4.element import NavigableString, PageElement

_MOST_DEEP = 100
_MOST_INDENTED = 48
# The parser looks through all open elements at each closing tag.
_MOST_OPEN = 10_000
_INDENTING = frozenset({"ul", "ol", "li", "dl", "dd", "dt", "blockquote", "table", "tr", "td", "th", "pre"})
# What markdownify is asked to write; of other tags, whose names it would look up among its own methods, come the words.
_WRITTEN = frozenset({
    "[document]", "a", "article", "blockquote", "br", "caption", "code", "dd", "div", "dl", "dt", "figcaption", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "img", "kbd", "li", "ol", "p", "pre", "q", "samp", "section", "table", "td",
    "th", "tr", "ul",
})  # fmt: skip
_LONG_BLANKS = re.compile(r"[\t \r\n]{64,}")
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|brush)-([\w+#.-]{1,20})")
# Around the words of links while a page is written: punctuation that next to no page has.
_MARKS = [chr(code) for code in range(0x10A50, 0x10A59)]
_MOST_LINKS = 500
# To other pages: neither within this one nor to anything but the web.
_LEADS = re.compile(r"(?:https?://|(?![a-z][a-z0-9+.-]*:|#|//))[^\s<>\"]{1,500}", re.IGNORECASE)
_NAMELESS = frozenset({"default", "text", "none", "source", "plaintext"})


def parse(html: str, name: str) -> BeautifulSoup:
    """The tree of a page called `name`, without comments and the like. Raises LoadError where no parser takes it."""
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
    from bs4.element import PreformattedString
    from bs4.exceptions import ParserRejectedMarkup

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # XHTML is read as HTML, as browsers do
            soup = BeautifulSoup(html, builder=_builder()())
    except ParserRejectedMarkup as error:
        raise LoadError(f"{name} is not HTML that can be parsed ({error}): save it anew or exclude it") from error
    except _TooManyOpen as error:
        raise LoadError(
            f"{name} opens {_MOST_OPEN:,} elements within one another, more than any page needs: save it anew as a "
            "browser shows it, or exclude it"
        ) from error
    # Comments, declarations, processing instructions.
    take_out(soup.find_all(string=lambda string: isinstance(string, PreformattedString)))
    return soup


def outermost(tree: Tag, wanted: Callable[[Tag], bool]) -> list[Tag]:
    """The tags below `tree` that are wanted, none of them within another."""
    from bs4 import Tag

    found: list[Tag] = []
    waiting = [tree]
    while waiting:
        children = [child for child in waiting.pop().contents if isinstance(child, Tag)]
        for child in reversed(children):
            (found if wanted(child) else waiting).append(child)
    return found


def take_out(elements: Iterable[PageElement]) -> None:
    """Take elements, none of them within another, out of their tree.

    One by one, each would be searched for among all its siblings.
    """
    by_parent: dict[int, tuple[Tag, list[PageElement]]] = {}
    for element in elements:
        if element.parent is not None:
            by_parent.setdefault(id(element.parent), (element.parent, []))[1].append(element)
    for parent, children in by_parent.values():
        gone = set(map(id, children))
        kept = [child for child in parent.contents if id(child) not in gone]
        for child in children:
            parent.contents = [child]
            child.extract()
        parent.contents = kept


class Written(NamedTuple):
    """Markdown, and what were links in the page: where their words stand in it, and their addresses."""

    text: str
    links: list[tuple[int, int, str]]

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        """The links as a document keeps them."""
        return {LINKS: json.dumps(self.links, ensure_ascii=False)} if self.links else {}


def markdown(tree: Tag) -> Written:
    """The tree as Markdown: words instead of links, pictures and emphasis. Changes the tree."""
    for tag in tree.find_all(["td", "th", "span", "tt"]):
        if tag.name == "tt" or (tag.name == "span" and "literal" in classes(tag)):
            tag.name = "code"  # what old pages and docutils write for it
        elif "colspan" in tag.attrs:
            del tag["colspan"]  # an empty column says nothing, and a thousand of them would be a bomb
    words = tree.get_text()
    free = "".join(mark for mark in _MARKS if mark not in words)[:3]
    converter = _converter()(free if len(free) == 3 else "")
    text = clean(converter.convert_soup(tree))
    text = "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    return _unmarked(text, free, converter.addresses)


def _unmarked(text: str, marks: str, addresses: list[str]) -> Written:
    """The text without the marks that stand around the words of links."""
    if not addresses:
        return Written(text, [])
    pieces, links, open_links = list[str](), list[tuple[int, int, str]](), list[tuple[int, str]]()
    length = at = 0
    for mark in re.finditer(f"{marks[0]}([0-9]+){marks[1]}|{marks[2]}", text):
        pieces.append(text[at : mark.start()])
        length, at = length + len(pieces[-1]), mark.end()
        if mark[1]:
            open_links.append((length, addresses[int(mark[1])]))
        elif open_links:
            start, address = open_links.pop()
            links.append((start, length, address))
    return Written("".join((*pieces, text[at:])), links)


def classes(tag: Tag) -> list[str]:
    """The classes that a tag has."""
    return [str(name) for name in tag.get_attribute_list("class")]


class _TooManyOpen(Exception):
    pass


@cache
def _builder() -> Any:
    from bs4.builder._lxml import LXMLTreeBuilder

    class ShallowBuilder(LXMLTreeBuilder):
        """Builds no tree deeper than conversion can go."""

        def __init__(self) -> None:
            super().__init__()
            self._open: list[str] = []  # as they stand in the tree
            self._indented = 0

        def start(self, tag: Any, attrib: Any, nsmap: Any = {}) -> None:  # noqa: B006 - as it is inherited
            depth = len(self._open)
            if depth >= _MOST_OPEN:
                raise _TooManyOpen
            if depth >= _MOST_DEEP:
                self._open.append("")
                self.data("\n")
                return
            if tag in _INDENTING:
                if self._indented == _MOST_INDENTED:
                    tag = "div"
                else:
                    self._indented += 1
            self._open.append(tag)
            super().start(tag, attrib, nsmap)

        def end(self, tag: Any) -> None:
            name = self._open.pop() if self._open else tag
            self._indented -= name in _INDENTING
            if name:
                super().end(name)

    return ShallowBuilder


@cache
def _converter() -> Any:
    from bs4.element import NavigableString
    from markdownify import MarkdownConverter

    class WordsConverter(MarkdownConverter):
        """Words instead of links, pictures and emphasis; fences that their code cannot close.

        Lists and rows are written here: markdownify looks back along all that came before in the list or table.
        """

        def __init__(self, marks: str) -> None:
            super().__init__(
                heading_style="ATX",
                strip=["b", "strong", "i", "em", "del", "s", "u", "sub", "sup", "mark"],
                escape_asterisks=False,
                escape_underscores=False,
                escape_misc=False,
            )
            self._marks = marks
            self.addresses: list[str] = []
            self._items: Counter[int] = Counter()
            self._heads: dict[int, bool] = {}

        def get_conv_fn(self, tag_name: str) -> Any:
            inherited: Any = super()
            return inherited.get_conv_fn(tag_name) if tag_name in _WRITTEN else None

        def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
            if "pre" not in (parent_tags or ()) and _LONG_BLANKS.search(el):
                shorter = NavigableString(_LONG_BLANKS.sub(_blank, el))
                shorter.parent, shorter.previous_sibling = el.parent, el.previous_sibling
                shorter.next_sibling = el.next_sibling
                el = shorter
            inherited: Any = super()
            return str(inherited.process_text(el, parent_tags=parent_tags))

        def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            address, shown = str(el.get("href") or "").strip(), text.strip()
            if not (shown and self._marks and len(self.addresses) < _MOST_LINKS and _LEADS.fullmatch(address)):
                return text
            at = text.index(shown)
            self.addresses.append(address)
            opened = f"{self._marks[0]}{len(self.addresses) - 1}{self._marks[1]}"
            return f"{text[:at]}{opened}{shown}{self._marks[2]}{text[at + len(shown) :]}"

        def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            return one_line(str(el.get("alt") or ""))

        def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            bullet = "- "
            if el.parent is not None and el.parent.name == "ol":
                first = str(el.parent.get("start", ""))
                number = int(first) if re.fullmatch("[0-9]{1,9}", first) else 1
                bullet = f"{number + self._items[id(el.parent)]}. "
                self._items[id(el.parent)] += 1
            text = text.strip()
            if not text:
                return "\n"
            blank = " " * len(bullet)
            first_line, *lines = text.split("\n")
            return "\n".join([bullet + first_line, *(blank + line if line else "" for line in lines)]) + "\n"

        def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            parent = el.parent
            row = f"|{text}\n"
            if parent is None or el.find_previous_sibling() is not None:
                return row
            cells = el.find_all(["td", "th"])
            rule = "| " + " | ".join(["---"] * len(cells)) + " |\n"
            if all(cell.name == "th" for cell in cells) or (
                parent.name == "thead" and len(parent.find_all("tr", limit=2)) == 1
            ):
                return row + rule
            if parent.name == "tbody" and parent.find_previous_sibling() is not None and self._has_head(parent):
                return row
            return "| " + " | ".join([""] * len(cells)) + " |\n" + rule + row

        def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
            fence = "`" * (longest + 1)
            code = text.strip("\n")
            return f"\n\n{fence}{_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""

        def _has_head(self, body: Tag) -> bool:
            table = body.parent
            if table is None:
                return False
            if id(table) not in self._heads:
                self._heads[id(table)] = table.find("thead") is not None
            return self._heads[id(table)]

    return WordsConverter


def _blank(run: re.Match[str]) -> str:
    return "\n" if "\n" in run[0] or "\r" in run[0] else " "


def _language(pre: Tag) -> str:
    """The programming language a code block names in its own, its code's or its wrappers' classes."""
    wrappers = [tag for tag in (pre.parent, pre.parent and pre.parent.parent) if tag and tag.name == "div"]
    for tag in (pre, *pre.find_all("code", limit=1), *wrappers):
        names = classes(tag)
        if "literal-block" in names:  # docutils writes the language bare: class="code python literal-block"
            names = [f"language-{name}" for name in names if name not in ("code", "literal-block")]
        for name in names:
            match = _LANGUAGE.search(name)
            if match and match[1].lower() not in _NAMELESS:
                return match[1]
    return ""
