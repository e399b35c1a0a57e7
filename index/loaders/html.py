"""HTML: the main content of a page, turned into Markdown.

Scripts, navigation, footers, forms and what a reader cannot see are left out; headings, lists, tables
and code stay. Links and emphasis become their words. `Document.text` is that Markdown, and its
offsets point into it, not into the page. `from_html` serves formats that come as HTML.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from bs4.element import PreformattedString
from bs4.exceptions import ParserRejectedMarkup
from markdownify import MarkdownConverter

from index.documents import LINKS, Document
from index.errors import LoadError
from index.loaders.markdown import outline
from index.loaders.reading import clean, decode, one_line, read_bytes, title_from_name
from text.sanitize import web_address

# What markdownify is asked to write; of other tags, whose names it would look up among its own methods, come the words.
_WRITTEN = frozenset({
    "[document]", "a", "article", "blockquote", "br", "caption", "code", "dd", "div", "dl", "dt", "figcaption", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "img", "kbd", "li", "ol", "p", "pre", "q", "samp", "section", "table", "td",
    "th", "tr", "ul",
})  # fmt: skip
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|brush)-([\w+#.-]{1,20})")
# Around the words of links while a page is written: punctuation that next to no page has.
_MARKS = [chr(code) for code in range(0x10A50, 0x10A59)]
_MOST_LINKS = 500
# To other pages: neither within this one nor to anything but the web.
_LEADS = re.compile(r"(?:https?://|(?![a-z][a-z0-9+.-]*:|#|//))[^\s<>\"]{1,500}", re.IGNORECASE)
_Link: TypeAlias = tuple[int, int, str]
_NAMELESS = frozenset({"default", "text", "none", "source", "plaintext"})


def _parsed(html: str, name: str) -> BeautifulSoup:
    """The tree of a page called `name`, without comments and the like. Raises LoadError where no parser takes it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # XHTML is read as HTML, as browsers do
            soup = BeautifulSoup(html, "lxml")
    except ParserRejectedMarkup as error:
        raise LoadError(f"{name} is not HTML that can be parsed ({error}): save it anew or exclude it") from error
    # Comments, declarations, processing instructions.
    for string in soup.find_all(string=lambda string: isinstance(string, PreformattedString)):
        string.extract()
    return soup


def _take_out(tree: Tag, unwanted: Callable[[Tag], bool]) -> None:
    for tag in tree.find_all(unwanted):
        tag.extract()


def _markdown(tree: Tag, name: str) -> tuple[str, list[_Link]]:
    """The tree as Markdown: words instead of links, pictures and emphasis. Changes the tree. Raises LoadError."""
    for tag in tree.find_all(["td", "th", "span", "tt", "ol"]):
        if tag.name == "tt" or (tag.name == "span" and "literal" in _classes(tag)):
            tag.name = "code"  # what old pages and docutils write for it
        elif "colspan" in tag.attrs:
            del tag["colspan"]  # an empty column says nothing
        elif tag.name == "ol" and not re.fullmatch("[0-9]{1,9}", str(tag.get("start", ""))):
            del tag["start"]
    words = tree.get_text()
    free = "".join(mark for mark in _MARKS if mark not in words)[:3]
    converter = _WordsConverter(free if len(free) == 3 else "")
    try:
        text = clean(converter.convert_soup(tree))
    except RecursionError as error:
        raise LoadError(
            f"{name} nests its elements deeper than any page needs: save it anew as a browser shows it, or exclude it"
        ) from error
    text = "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    return _unmarked(text, free, converter.addresses)


def _unmarked(text: str, marks: str, addresses: list[str]) -> tuple[str, list[_Link]]:
    """The text without the marks that stand around the words of links, and the links."""
    if not addresses:
        return text, []
    pieces, links, open_links = list[str](), list[_Link](), list[tuple[int, str]]()
    length = at = 0
    for mark in re.finditer(f"{marks[0]}([0-9]+){marks[1]}|{marks[2]}", text):
        pieces.append(text[at : mark.start()])
        length, at = length + len(pieces[-1]), mark.end()
        if mark[1]:
            open_links.append((length, addresses[int(mark[1])]))
        elif open_links:
            start, address = open_links.pop()
            links.append((start, length, address))
    return "".join((*pieces, text[at:])), links


def _classes(tag: Tag) -> list[str]:
    return [str(name) for name in tag.get_attribute_list("class")]


class _WordsConverter(MarkdownConverter):
    """Words instead of links, pictures and emphasis; fences that their code cannot close."""

    def __init__(self, marks: str) -> None:
        super().__init__(
            heading_style="ATX",
            bullets="-",
            strip=["b", "strong", "i", "em", "del", "s", "u", "sub", "sup", "mark"],
            escape_asterisks=False,
            escape_underscores=False,
            escape_misc=False,
        )
        self._marks = marks
        self.addresses: list[str] = []

    def get_conv_fn(self, tag_name: str) -> Any:
        inherited: Any = super()
        return inherited.get_conv_fn(tag_name) if tag_name in _WRITTEN else None

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        address, label = str(el.get("href") or "").strip(), text.strip()
        if not (label and self._marks and len(self.addresses) < _MOST_LINKS and _LEADS.fullmatch(address)):
            return text
        at = text.index(label)
        self.addresses.append(address)
        opened = f"{self._marks[0]}{len(self.addresses) - 1}{self._marks[1]}"
        return f"{text[:at]}{opened}{label}{self._marks[2]}{text[at + len(label) :]}"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return one_line(str(el.get("alt") or ""))

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
        fence = "`" * (longest + 1)
        code = text.strip("\n")
        return f"\n\n{fence}{_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""


def _language(pre: Tag) -> str:
    """The programming language a code block names in its own, its code's or its wrappers' classes."""
    wrappers = [tag for tag in (pre.parent, pre.parent and pre.parent.parent) if tag and tag.name == "div"]
    for tag in (pre, *pre.find_all("code", limit=1), *wrappers):
        names = _classes(tag)
        if "literal-block" in names:  # docutils writes the language bare: class="code python literal-block"
            names = [f"language-{name}" for name in names if name not in ("code", "literal-block")]
        for name in names:
            match = _LANGUAGE.search(name)
            if match and match[1].lower() not in _NAMELESS:
                return match[1]
    return ""


_UNSEEN = frozenset({
    "head", "script", "style", "noscript", "template", "iframe", "object", "embed", "svg", "canvas", "video", "audio",
    "dialog", "button", "input", "select", "textarea",
})  # fmt: skip
_UNSEEN_CLASSES = frozenset({"headerlink", "hash-link", "anchor", "linenos"})
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_AROUND = frozenset({"nav", "footer"})
_AROUND_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "complementary"})
_AROUND_NAMES = frozenset({  # of classes and ids
    "sidebar", "sphinxsidebar", "breadcrumb", "breadcrumbs", "toc", "table-of-contents", "toctree-wrapper",
    "pagination", "pagination-nav", "navbar", "menu", "skip-link", "cookie-banner", "wy-breadcrumbs",
    "rst-footer-buttons", "theme-doc-toc-mobile", "md-source-file", "navigation", "footer",
})  # fmt: skip
_OUTSIDE = frozenset({"header", "aside"})
# Where the main part stands, the surest sign first.
_MAIN: tuple[dict[str, Any], ...] = (
    {"name": "main"},
    {"attrs": {"role": "main"}},
    {"name": "article"},
    {"class_": "markdown-body"},
    {"class_": "md-content"},
    {"id": "main-content"},
    {"id": "content"},
)
# The main part must hold at least this share of the page's words, or it was not the main part.
_SHARE = 0.2


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read or its page shows no text."""
    data = read_bytes(path, max_bytes)
    declared = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=False)
    soup = _parsed(clean(decode(data, path.name, declared)), path.name)
    page_title = one_line(soup.title.get_text()) if soup.title else ""
    canonical = soup.find("link", rel="canonical")
    address = web_address(canonical.get("href")) if canonical else ""
    nothing = "shows no text: it is empty or filled by scripts; save the page as a browser shows it"
    return _document(_main_part(soup), document_id, path, "html", nothing, address, page_title)


def from_html(html: str, document_id: str, path: Path, kind: str, nothing: str) -> list[Document]:
    """The document of a file of another format, given as a whole HTML document; its head, its table of contents and
    what cannot be seen are left out. Raises LoadError, in the words `nothing` where there is no text."""
    soup = _parsed(html, path.name)
    _take_out(soup, lambda tag: tag.name == "nav" or _is_unseen(tag))
    return _document(soup, document_id, path, kind, nothing)


def _document(
    tree: Tag, document_id: str, path: Path, kind: str, nothing: str, address: str = "", title: str = ""
) -> list[Document]:
    text, links = _markdown(tree, path.name)
    structure = outline(text)
    if not structure.sections:
        raise LoadError(f"{path.name} {nothing}")
    title = structure.title or title or title_from_name(path.name)
    metadata = {LINKS: json.dumps(links, ensure_ascii=False)} if links else {}
    metadata |= {"source": address or document_id, "format": kind}
    return [Document(document_id, title, text, structure.sections, metadata)]


def _main_part(soup: BeautifulSoup) -> Tag:
    _take_out(soup, _is_unseen)
    _drop_around(soup)
    words = len(soup.get_text())
    for sign in _MAIN:
        candidates: list[Tag] = soup.find_all(**sign, limit=2)
        if len(candidates) == 1 and len(candidates[0].get_text()) >= _SHARE * words:
            return candidates[0]
    _drop_around(soup, outside=True)
    return soup


def _is_unseen(tag: Tag) -> bool:
    if tag.name in _UNSEEN:
        return True
    attributes = tag.attrs
    return bool(attributes) and (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or not _UNSEEN_CLASSES.isdisjoint(_classes(tag))
        or _INVISIBLE.search(str(attributes.get("style", ""))) is not None
    )


def _drop_around(tree: Tag, outside: bool = False) -> None:
    """Take away what stands around the text, unless that is most of it; `outside`: page heads and asides too."""
    words = len(tree.get_text())
    for tag in tree.find_all(lambda tag: _is_around(tag, outside)):
        if tag.name not in ("html", "body", "main") and 2 * len(tag.get_text()) <= words:
            tag.extract()


def _is_around(tag: Tag, outside: bool) -> bool:
    if tag.name in _AROUND or (outside and tag.name in _OUTSIDE):
        return True
    attributes = tag.attrs
    return bool(attributes) and (
        attributes.get("role") in _AROUND_ROLES
        or attributes.get("id") in _AROUND_NAMES
        or not _AROUND_NAMES.isdisjoint(_classes(tag))
    )
