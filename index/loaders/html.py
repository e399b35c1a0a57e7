"""HTML: the main content of a page, turned into Markdown.

Scripts, navigation, footers, forms and what a reader cannot see are left out; headings, lists, tables
and code stay. Links and emphasis become their words. `Document.text` is that Markdown, and its
offsets point into it, not into the page. `from_html` serves formats that come as HTML. Trees, and how they
become Markdown, are `index.loaders.html_tree`'s.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from index.documents import Document
from index.errors import LoadError
from index.loaders.front_matter import web_address
from index.loaders.html_tree import Written, classes, markdown, outermost, parse, take_out
from index.loaders.markdown import outline
from index.loaders.reading import clean, decode, one_line, read_bytes, title_from_name

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

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
_MOST_SPARED = 20


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read or its page shows no text."""
    from bs4.dammit import EncodingDetector

    data = read_bytes(path, max_bytes)
    declared = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=False)
    soup = parse(clean(decode(data, path.name, declared)), path.name)
    page_title = one_line(soup.title.get_text()) if soup.title else ""
    canonical = soup.find("link", rel="canonical")
    address = web_address(canonical.get("href")) if canonical else ""
    nothing = "shows no text: it is empty or filled by scripts; save the page as a browser shows it"
    metadata = {"source": address or document_id, "format": "html"}
    return _document(markdown(_main_part(soup)), document_id, path, metadata, nothing, page_title)


def from_html(html: str, document_id: str, path: Path, kind: str, nothing: str) -> list[Document]:
    """The document of a file of another format, given as a whole HTML document; its head, its table of contents and
    what cannot be seen are left out. Raises LoadError, in the words `nothing` where there is no text."""
    soup = parse(html, path.name)
    take_out(outermost(soup, lambda tag: tag.name == "nav" or _is_unseen(tag)))
    return _document(markdown(soup), document_id, path, {"source": document_id, "format": kind}, nothing)


def _document(
    page: Written, document_id: str, path: Path, metadata: dict[str, str], nothing: str, title: str = ""
) -> list[Document]:
    structure = outline(page.text)
    if not structure.sections:
        raise LoadError(f"{path.name} {nothing}")
    title = structure.title or title or title_from_name(path.name)
    return [Document(document_id, title, page.text, structure.sections, {**page.metadata, **metadata})]


def _main_part(soup: BeautifulSoup) -> Tag:
    take_out(outermost(soup, _is_unseen))
    _drop_around(soup)
    words = len(soup.get_text())
    for sign in _MAIN:
        found: list[Tag] = soup.find_all(**sign, limit=2)
        if len(found) == 1 and len(found[0].get_text()) >= _SHARE * words:
            return found[0]
    _drop_around(soup, outside=True)
    return soup


def _is_unseen(tag: Tag) -> bool:
    if tag.name in _UNSEEN:
        return True
    attributes = tag.attrs
    return bool(attributes) and (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or not _UNSEEN_CLASSES.isdisjoint(classes(tag))
        or _INVISIBLE.search(str(attributes.get("style", ""))) is not None
    )


def _drop_around(tree: Tag, outside: bool = False) -> None:
    """Take away what stands around the text, unless that is most of it; `outside`: page heads and asides too."""
    words = len(tree.get_text())
    spared = 0

    def is_dropped(tag: Tag) -> bool:
        nonlocal spared
        # A page all of navigation in navigation: measuring it would never end.
        if spared == _MOST_SPARED or tag.name in ("html", "body", "main") or not _is_around(tag, outside):
            return False
        most = 2 * len(tag.get_text()) > words
        spared += most
        return not most

    take_out(outermost(tree, is_dropped))


def _is_around(tag: Tag, outside: bool) -> bool:
    if tag.name in _AROUND or (outside and tag.name in _OUTSIDE):
        return True
    attributes = tag.attrs
    return bool(attributes) and (
        attributes.get("role") in _AROUND_ROLES
        or attributes.get("id") in _AROUND_NAMES
        or not _AROUND_NAMES.isdisjoint(classes(tag))
    )
