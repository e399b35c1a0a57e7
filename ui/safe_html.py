"""Hostile text to escaped HTML: the only way from documents, people and models into the page.

Markdown is rendered with raw HTML left out or shown as text (`ui.markup`), images replaced by their description, links
kept only for http, https and mailto (in a new tab, their host shown); the result goes through nh3 with a
short list of elements. Marks are added by `ui.annotations` after that. Everything else in the page
is written by autoescaping templates (`ui.templates`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from text.sanitize import is_showable, masked
from text.translation import gettext
from ui import markup
from ui.annotations import Annotation, Marked

LONGEST = 60_000
"""Characters of one text that are rendered; the rest is cut with a note."""

NO_LINKS: Mapping[str, str] = MappingProxyType({})
_BLOCKS = ("p", "pre", "ul", "ol", "li", "blockquote", "hr", "div", "table", "thead", "tbody", "tr", "th", "td")
ELEMENTS = frozenset((*_BLOCKS, "h1", "h2", "h3", "h4", "h5", "h6", "br", "strong", "em", "s", "code", "a", "span"))
"""What Markdown may become; everything else is dropped, its text kept."""

_SCHEMES = {"http", "https", "mailto"}
_CLASSES = {
    "a": {"inside"},
    "code": {"formula", "block"},
    "span": {"image", "host", "inert"},
    "div": {"table", markup.BOX},
    "p": {markup.TITLE},
}
_HOST = re.compile(r"[^\s%\\<>\"'`]+")
_EMPTY = re.compile(r"<p>\s*</p>\n?")
_CODE = (
    '<div class="code"><button type="button" class="pill" data-action="copy-code" aria-label="{name}">{word}</button>'
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")


def link_target(address: str) -> str | None:
    """`address` if a person may be sent there from a document or an answer, else None."""
    address = address.strip()
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme.lower() not in _SCHEMES or not is_showable(address):
        return None
    if parts.scheme.lower() != "mailto" and not _HOST.fullmatch(parts.netloc):
        return None
    return address


def _describe_image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    alt = renderer.renderInlineAsText(tokens[index].children or [], options, env)
    if html := markup.shown_image(str(tokens[index].attrGet("src") or ""), alt, env):
        return html
    return f'<span class="image">{escape(alt or "image")}</span>'


def _tame(state: StateCore) -> None:
    """Headings below the page's own; links that lead nowhere safe become text."""
    for block in state.tokens:
        if block.type in ("heading_open", "heading_close"):
            block.tag = f"h{min(6, int(block.tag[1]) + 2)}"
        open_links: list[tuple[str, str | None]] = []
        children: list[Token] = []
        for token in block.children or ():
            children.append(token)
            if token.type == "link_open":
                _open_link(token, open_links, state.env.get("links", {}))
            elif token.type == "link_close" and open_links:
                token.tag, host = open_links.pop()
                if host:
                    note = Token("text", "", 0, content=f" ({host})")
                    children += [Token("host_open", "span", 1, attrs={"class": "host"}), note]
                    children.append(Token("host_close", "span", -1))
        if block.children is not None:
            block.children = children


def _open_link(token: Token, open_links: list[tuple[str, str | None]], inside: Mapping[str, str]) -> None:
    address = str(token.attrGet("href") or "")
    if address in inside:
        token.attrs = {"href": inside[address], "class": "inside"}
        open_links.append(("a", None))
        return
    target = link_target(address)
    if target is None:
        token.tag, token.attrs = "span", {"class": "inert", "title": address[:300]}
        open_links.append(("span", None))
        return
    token.attrs = {"href": target, "title": target[:300], "target": "_blank"}
    open_links.append(("a", urlsplit(target).netloc[:80] or None))


@cache
def _markdown() -> MarkdownIt:
    options = {"html": True, "highlight": markup.coloured}
    # Tags are read where they stand, so that `ui.markup` can leave them out; none is ever passed on.
    markdown = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("html_block")
    markup.install_admonitions(markdown)
    markup.install_formulas(markdown)
    # Addresses are judged in `_tame`: a refused one still shows its text as the author wrote it.
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    markdown.add_render_rule("image", _describe_image)
    markdown.add_render_rule("html_inline", markup.html_inline)
    markdown.core.ruler.push("tidy", markup.tidy)
    markdown.core.ruler.push("tame", _tame)
    return markdown


def clean(html: str, *, images: bool = False) -> str:
    """Only listed elements and attributes; links get `rel`. With `images` also those of our own server."""
    return nh3.clean(
        html,
        tags={*ELEMENTS, "img"} if images else set(ELEMENTS),
        clean_content_tags={"script", "style"},
        attributes={
            "a": {"href", "title", "target"},
            "span": {"title"},
            "ol": {"start"},
            "img": {"src", "alt", "loading"},
        },
        allowed_classes=_CLASSES | {"span": _CLASSES["span"] | markup.colours()},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )


def _cut(text: str) -> tuple[str, Markup]:
    if len(text) <= LONGEST:
        return text, Markup("")
    note = Markup('<p class="cut">The rest ({} more characters) is not shown.</p>').format(len(text) - LONGEST)
    return text[:LONGEST], note


def render_markdown(
    text: str, annotations: Sequence[Annotation] = (), images: str = "", links: Mapping[str, str] = NO_LINKS
) -> Markup:
    """Markdown as safe HTML with `annotations` (offsets of `text`); good for half a text as well.

    `images` is the address, up to a name, of the images that the text names; without one they are described. `links`
    has our own addresses for those of the text that lead to documents beside it.
    """
    visible, note = _cut(masked(text))
    marked = Marked(visible, annotations)
    html = _markdown().render(marked.source, {"images": images, "links": links})
    html = html.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    code = _CODE.format(name=gettext("Copy this code"), word=gettext("Copy"))
    html = (
        _EMPTY.sub("", clean(html, images=bool(images)))
        .replace("<pre>", f"{code}<pre>")
        .replace("</pre>", "</pre></div>")
    )
    return marked.apply(markup.set_formulas(html)) + note


def render_plain(text: str, annotations: Sequence[Annotation] = (), *, flowing: bool = False) -> Markup:
    """Text as it stands, escaped, with `annotations`; `flowing` text (a PDF's) breaks lines at paragraphs only."""
    visible, note = _cut(masked(text))
    marked = Marked(visible, annotations, plain=True)
    html = marked.apply(str(escape(marked.source)))
    if flowing:
        return Markup('<div class="plain flowing">{}</div>').format(Markup(_PARAGRAPH.sub("<br><br>", html))) + note
    return Markup('<div class="plain">{}</div>').format(html) + note
