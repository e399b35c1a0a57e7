"""HTML: the main content of a page, turned into Markdown.

Scripts, navigation, footers, forms and what a reader cannot see are left out; headings, lists, tables
and code stay. Links and emphasis become their words. `Document.text` is that Markdown, and its
offsets point into it, not into the page. `to_markdown` also serves formats that come as HTML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from index.documents import Document
from index.errors import LoadError
from index.loaders.front_matter import web_address
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
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|brush)-([\w+#.-]{1,20})")
_NAMELESS = frozenset({"default", "text", "none", "source", "plaintext"})
# The main part must hold at least this share of the page's words, or it was not the main part.
_SHARE = 0.2
_MOST_SPARED = 20


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read or its page shows no text."""
    from bs4.dammit import EncodingDetector

    data = read_bytes(path, max_bytes)
    declared = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=False)
    soup = _parse(clean(decode(data, path.name, declared)))
    page_title = one_line(soup.title.get_text()) if soup.title else ""
    canonical = soup.find("link", rel="canonical")
    address = web_address(canonical.get("href")) if canonical else ""
    text = _markdown(_main_part(soup))
    structure = outline(text)
    if not structure.sections:
        raise LoadError(
            f"{path.name} shows no text: it is empty or filled by scripts; save the page as a browser shows it"
        )
    title = structure.title or page_title or title_from_name(path.name)
    metadata = {"source": address or document_id, "format": "html"}
    return [Document(document_id, title, text, structure.sections, metadata)]


def to_markdown(html: str) -> str:
    """A whole HTML document as Markdown; its head, its table of contents and what cannot be seen left out."""
    soup = _parse(html)
    _drop_unseen(soup)
    for contents in soup.find_all("nav"):
        contents.extract()
    return _markdown(soup)


def _parse(html: str) -> BeautifulSoup:
    from bs4 import BeautifulSoup
    from bs4.element import PreformattedString

    soup = BeautifulSoup(html, "lxml")
    for hidden in soup.find_all(string=lambda string: isinstance(string, PreformattedString)):
        hidden.extract()  # comments, declarations, processing instructions
    return soup


def _main_part(soup: BeautifulSoup) -> Tag:
    _drop_unseen(soup)
    _drop_around(soup)
    words = len(soup.get_text())
    for sign in _MAIN:
        found: list[Tag] = soup.find_all(**sign, limit=2)
        if len(found) == 1 and len(found[0].get_text()) >= _SHARE * words:
            return found[0]
    _drop_around(soup, outside=True)
    return soup


def _drop_unseen(tree: Tag) -> None:
    for tag in tree.find_all(True):
        if _is_unseen(tag):
            tag.extract()


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
    spared = 0
    for tag in tree.find_all(True):
        if tag.name in ("html", "body", "main") or not _is_around(tag, outside):
            continue
        if 2 * len(tag.get_text()) <= words:
            tag.extract()
        else:
            spared += 1
            if spared == _MOST_SPARED:  # a page all of navigation in navigation: measuring it would never end
                return


def _is_around(tag: Tag, outside: bool) -> bool:
    if tag.name in _AROUND or (outside and tag.name in _OUTSIDE):
        return True
    attributes = tag.attrs
    return bool(attributes) and (
        attributes.get("role") in _AROUND_ROLES
        or attributes.get("id") in _AROUND_NAMES
        or not _AROUND_NAMES.isdisjoint(_classes(tag))
    )


def _classes(tag: Tag) -> list[str]:
    return [str(name) for name in tag.get_attribute_list("class")]


def _markdown(tree: Tag) -> str:
    for tag in tree.find_all(["td", "th", "span", "tt"]):
        if tag.name == "tt" or (tag.name == "span" and "literal" in _classes(tag)):
            tag.name = "code"  # what old pages and docutils write for it
        elif "colspan" in tag.attrs:
            del tag["colspan"]  # an empty column says nothing, and a thousand of them would be a bomb
    try:
        text = _converter().convert_soup(tree)
    except RecursionError:  # nested deeper than any page means it: keep the words, give up the structure
        text = tree.get_text("\n", strip=True)
    return "\n".join(line.rstrip() for line in clean(text).split("\n")).strip("\n")


def _converter() -> Any:
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        """Words instead of links, pictures and emphasis; fences that their code cannot close."""

        def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            return one_line(str(el.get("alt") or ""))

        def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
            fence = "`" * (longest + 1)
            code = text.strip("\n")
            return f"\n\n{fence}{_language(el)}\n{code}\n{fence}\n\n" if code.strip() else ""

    return Converter(
        heading_style="ATX",
        bullets="-",
        strip=["a", "b", "strong", "i", "em", "del", "s", "u", "sub", "sup", "mark"],
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
    )


def _language(pre: Tag) -> str:
    """The programming language a code block names in its own, its code's or its wrappers' classes."""
    wrappers = [tag for tag in list(pre.parents)[:2] if tag.name == "div"]
    for tag in (pre, *pre.find_all("code", limit=1), *wrappers):
        names = _classes(tag)
        if "literal-block" in names:  # docutils writes the language bare: class="code python literal-block"
            names = [f"language-{name}" for name in names if name not in ("code", "literal-block")]
        for name in names:
            match = _LANGUAGE.search(name)
            if match and match[1].lower() not in _NAMELESS:
                return match[1]
    return ""
