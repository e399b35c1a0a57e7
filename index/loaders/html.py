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

_UNSEEN = (
    "script, style, noscript, template, iframe, object, embed, svg, canvas, video, audio, dialog, button, input, "
    "select, textarea, [hidden], [aria-hidden=true], [style*='display:none' i], [style*='display: none' i], "
    "[style*='visibility:hidden' i], [style*='visibility: hidden' i], a.headerlink, a.hash-link, a.anchor, td.linenos, "
    "span.linenos"
)
_AROUND = (
    "nav, footer, [role=navigation], [role=banner], [role=contentinfo], [role=search], [role=complementary], "
    ".sidebar, .sphinxsidebar, .breadcrumb, .breadcrumbs, .toc, .table-of-contents, .toctree-wrapper, "
    ".contents.topic, nav.contents, .pagination, .pagination-nav, .navbar, .menu, .skip-link, .cookie-banner, "
    ".wy-breadcrumbs, .rst-footer-buttons, .theme-doc-toc-mobile, .md-source-file, #toc, #sidebar, #navigation, #footer"
)
_OUTSIDE = "header, aside"
_MAIN = ("main", "[role=main]", "article", ".markdown-body", ".md-content", "#main-content", "#content", "body")
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight|brush)-([\w+#.-]{1,20})")
_NAMELESS = frozenset({"default", "text", "none", "source", "plaintext"})
# The main part must hold at least this share of the page's words, or it was not the main part.
_SHARE = 0.2


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError where the file cannot be read or its page shows no text."""
    from bs4.dammit import EncodingDetector

    data = read_bytes(path, max_bytes)
    declared = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=False)
    soup = _parse(clean(decode(data, path.name, declared)))
    page_title = one_line(soup.title.get_text()) if soup.title else ""
    canonical = soup.select_one("link[rel=canonical]")
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
    _drop(soup, f"head, nav, {_UNSEEN}", always=True)
    return _markdown(soup)


def _parse(html: str) -> BeautifulSoup:
    from bs4 import BeautifulSoup
    from bs4.element import PreformattedString

    soup = BeautifulSoup(html, "lxml")
    for hidden in soup.find_all(string=lambda string: isinstance(string, PreformattedString)):
        hidden.extract()  # comments, declarations, processing instructions
    return soup


def _main_part(soup: BeautifulSoup) -> Tag:
    _drop(soup, f"head, {_UNSEEN}", always=True)
    _drop(soup, _AROUND)
    words = len(soup.get_text())
    for selector in _MAIN:
        found = soup.select(selector)
        if len(found) == 1 and len(found[0].get_text()) >= _SHARE * words:
            if selector == "body":
                _drop(found[0], _OUTSIDE)
            return found[0]
    return soup


def _drop(tree: Tag, selector: str, always: bool = False) -> None:
    """Take away what `selector` finds; unless `always`, only where that is not most of the text."""
    words = len(tree.get_text())
    for tag in tree.select(selector):
        if tag.decomposed or tag.name in ("html", "body", "main"):
            continue
        if always or 2 * len(tag.get_text()) <= words:
            tag.decompose()


def _markdown(tree: Tag) -> str:
    for cell in tree.select("[colspan]"):
        del cell["colspan"]  # an empty column says nothing, and a thousand of them would be a bomb
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
    for tag in (pre, *pre.select("code")[:1], *wrappers):
        names = [str(name or "") for name in tag.get_attribute_list("class")]
        if "literal-block" in names:  # docutils writes the language bare: class="code python literal-block"
            names = [f"language-{name}" for name in names if name not in ("code", "literal-block")]
        for name in names:
            match = _LANGUAGE.search(name)
            if match and match[1].lower() not in _NAMELESS:
                return match[1]
    return ""
