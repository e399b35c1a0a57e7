"""Hostile text to escaped HTML: the only way from documents, people and models into the page.

Markdown is rendered with raw HTML left out or shown as text, images replaced by their description, links kept only for
http, https and mailto (in a new tab, their host shown); the result goes through nh3 with a short list of elements.
Marks are added by `ui.annotations` after that. Everything else in the page is written by autoescaping templates
(`ui.templates`).

Markup that documentation tools read and people should not see (tags, roles, attribute lists, inclusions) is taken out
of markdown-it's tokens, so that offsets of the text stay. A tag with a handler stays text, so that it is seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from html import unescape
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from text.languages import gettext
from text.sanitize import is_showable, masked
from ui.annotations import DELIMITERS, Annotation, Marked

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

BOX, TITLE = "admonition", "admonition-title"
"""The classes of a box and of its title."""

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
    "div": {"table", BOX},
    "p": {TITLE},
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
    if html := _shown_image(str(tokens[index].attrGet("src") or ""), alt, env):
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


_FENCE = re.compile(r"\s*(?P<kind>[A-Za-z][\w-]{0,40})\s*(?:\||\[)?\s*(?P<title>[^\n]{0,200}?)\s*\]?\s*")


def _is_fence(parameters: str, *_: object) -> bool:
    return _FENCE.fullmatch(parameters) is not None


def _render(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    if token.nesting < 0:
        return "</div>\n"
    match = _FENCE.fullmatch(token.info)
    kind, title = (match["kind"], match["title"]) if match else ("", "")
    return f'<div class="{BOX}"><p class="{TITLE}">{escape(title or kind.replace("-", " ").capitalize())}</p>\n'


MATH_ELEMENTS = frozenset({
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot", "mover",
    "munder", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom",
})  # fmt: skip
MATH_ATTRIBUTES = frozenset(("display", "mathvariant", "stretchy", "displaystyle", "scriptlevel", "accent"))
_VALUE = re.compile(r"[a-z0-9.+ -]{1,24}")
_LONGEST_FORMULA = 1000
_FORMULA = re.compile(r"[\\^_=<>+]|^\s*\w\s*$")
_MARKED = re.compile(r'<code class="formula( block)?">(.*?)</code>', re.DOTALL)


def _render_formulas(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    block = token.type != "math_inline"
    if not block and not _FORMULA.search(token.content):
        return str(escape(f"${token.content}$"))  # a price, a variable
    marked = f'<code class="formula{" block" if block else ""}">{escape(token.content.strip())}</code>'
    return f"<p>{marked}</p>\n" if token.type == "math_block" else marked


def _set_formulas(html: str) -> str:
    """Clean HTML with its formulas set."""
    return _MARKED.sub(lambda match: _set(unescape(match[2]), bool(match[1])) or match[0], html)


@lru_cache(512)
def _set(latex: str, block: bool) -> str:
    """MathML of a formula; empty where it cannot be read, or where a mark begins or ends in it."""
    if len(latex) > _LONGEST_FORMULA or any(char in latex for char in DELIMITERS) or not find_spec("latex2mathml"):
        return ""
    from latex2mathml import converter, exceptions

    kinds = (kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception))
    others = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
    unreadable: tuple[type[Exception], ...] = (*kinds, *others)
    try:
        element = converter.convert_to_element(latex, display="block" if block else "inline")
    except unreadable:
        return ""
    return _written(element)


def _written(element: Element) -> str:
    inside = str(escape(unescape(element.text or ""))) + "".join(_written(child) for child in element)
    if element.tag not in MATH_ELEMENTS:
        return inside
    safe = {name: value for name, value in element.items() if name in MATH_ATTRIBUTES and _VALUE.fullmatch(value)}
    attributes = "".join(f' {name}="{value}"' for name, value in safe.items())
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"


_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)(\s[^>]*)?/?>", re.DOTALL)
_HANDLER = re.compile(r"\bon\w+\s*=|javascript:", re.IGNORECASE)
_ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SOURCE = re.compile(r"\bsrc\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_OWN_IMAGE = re.compile(r"(?![\w+.-]*:|//|/)[^\s<>\"'\\]+\.(?:png|jpe?g|gif|webp)", re.IGNORECASE)
"""A name that says where an image lies beside its page, and nothing of another server."""
_LEFT_OUT = _words(
    """
    a abbr article aside b big blockquote center cite code dd del details dfn div dl dt em figcaption figure font h1 h2
    h3 h4 h5 h6 hr i ins kbd li mark nav ol p picture pre q s samp section small source span strike strong sub summary
    sup table tbody td tfoot th thead tr tt u ul var wbr
    """
)
_ROLE = re.compile(r"(?:\{([a-z][\w:+.-]*)\}|(?<![\w:]):([a-z][\w+.-]*(?::[\w+.-]+)?):)$")
_TEXT_ROLES = _words("abbr any doc dfn guilabel menuselection numref program ref sub sup term")
_TARGET = re.compile(r"(.*?)\s*<[^<>]*>", re.DOTALL)
_INCLUDED = re.compile(r"\{\*[^{}]*\*\}|\{%[^{}]*%\}|--8<--\s+\S+")
_ATTRIBUTES = re.compile(r"\{:?\s*(?:[#.][^{}\n]*|[\w-]+=[^{}\n]*)\}")
_LANGUAGES = {
    "bash": "bash", "c": "c", "console": "console", "cpp": "cpp", "css": "css", "diff": "diff", "docker": "docker",
    "dockerfile": "docker", "go": "go", "html": "html", "ini": "ini", "java": "java", "javascript": "javascript",
    "js": "javascript", "json": "json", "jsx": "javascript", "py": "python", "python": "python", "rust": "rust",
    "sh": "bash", "shell": "bash", "sql": "sql", "toml": "toml", "ts": "typescript", "typescript": "typescript",
    "xml": "xml", "yaml": "yaml", "yml": "yaml",
}  # fmt: skip
_LONGEST_COLOURED = 8000


def _html_inline(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    """A tag of the text: left out, a line break, a description of an image, or the text it is."""
    content = tokens[index].content
    tag = _TAG.fullmatch(content)
    if content.startswith("<!--"):
        return ""
    if tag is not None and not _HANDLER.search(content):
        name = tag[1].lower()
        if name == "br":
            return "<br>"
        if name == "img":
            alt, source = _ALT.search(content), _SOURCE.search(content)
            words = (alt[1] or alt[2] or "") if alt else ""
            if source and (html := _shown_image(source[1] or source[2], words, env)):
                return html
            return f'<span class="image">{escape(words or "image")}</span>'
        if name in _LEFT_OUT:
            return ""
    return str(escape(content))


def _shown_image(name: str, words: str, env: EnvType) -> str:
    """The image of a document, served by us; empty where it is not of our own collection."""
    if not env.get("images") or not _OWN_IMAGE.fullmatch(name):
        return ""
    return f'<img src="{escape(env["images"] + quote(name, safe=""))}" alt="{escape(words)}" loading="lazy">'


def _tidy(state: StateCore) -> None:
    """A core rule: roles become their words; attribute lists and inclusions are left out."""
    for block in state.tokens:
        children = block.children or []
        if block.type == "inline" and _INCLUDED.fullmatch(block.content.strip()):
            block.children = []
            continue
        for before, token in zip([None, *children], children, strict=False):
            if token.type == "code_inline" and before is not None and before.type == "text":
                _play(before, token)
            elif token.type == "text" and token.content.startswith("{") and before is not None and before.nesting < 0:
                token.content = _ATTRIBUTES.sub("", token.content, count=1)
        if children and children[-1].type == "text" and (matches := list(_ATTRIBUTES.finditer(children[-1].content))):
            last = matches[-1]
            if not children[-1].content[last.end() :].strip():
                children[-1].content = children[-1].content[: last.start()].rstrip()


def _play(before: Token, code: Token) -> None:
    """Take the role before a code span away, and of its text the target."""
    role = _ROLE.search(before.content)
    if role is None:
        return
    before.content = before.content[: role.start()]
    titled = _TARGET.fullmatch(code.content)
    words = titled[1] if titled and titled[1] else code.content.lstrip("!")
    name = (role[1] or role[2]).rpartition(":")[2]
    if words.startswith("~"):
        words = words.rpartition(".")[2] or words[1:]
    code.content = words
    if name in _TEXT_ROLES:
        code.type, code.tag = "text", ""


def _highlighted(code: str, language: str, attributes: str = "") -> str:
    """A code block's inside as HTML; empty where the language is not known, so that it is merely escaped."""
    lexer = _LANGUAGES.get(language.strip("{}.").lower())
    if lexer is None or len(code) > _LONGEST_COLOURED or any(char in code for char in DELIMITERS):
        return ""
    return _coloured(code, lexer)


@cache
def _colours() -> frozenset[str]:
    """Classes of coloured code: Pygments' short names of kinds of words."""
    from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]

    return frozenset(STANDARD_TYPES.values()) - {""}


@lru_cache(256)
def _coloured(code: str, lexer: str) -> str:
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    return str(highlight(code, get_lexer_by_name(lexer, stripnl=False), HtmlFormatter(nowrap=True)))


@cache
def _markdown() -> MarkdownIt:
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.container import container_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    options = {"html": True, "highlight": _highlighted}
    # Tags are read where they stand, so that `ui.markup` can leave them out; none is ever passed on.
    markdown = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("html_block")
    markdown.use(admon_plugin)
    for name, marker in (("slashes", "/"), ("colons", ":")):
        markdown.use(container_plugin, name, marker=marker, validate=_is_fence, render=_render)
    # Formulas come out as `<code class="formula">`, and only `_set_formulas` sets them.
    markdown.use(dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False, double_inline=True)
    for name in ("math_inline", "math_inline_double", "math_block"):
        markdown.add_render_rule(name, _render_formulas)
    # Addresses are judged in `_tame`: a refused one still shows its text as the author wrote it.
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    markdown.add_render_rule("image", _describe_image)
    markdown.add_render_rule("html_inline", _html_inline)
    markdown.core.ruler.push("tidy", _tidy)
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
        allowed_classes=_CLASSES | {"span": _CLASSES["span"] | _colours()},
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
    return marked.apply(_set_formulas(html)) + note


def render_plain(text: str, annotations: Sequence[Annotation] = (), *, flowing: bool = False) -> Markup:
    """Text as it stands, escaped, with `annotations`; `flowing` text (a PDF's) breaks lines at paragraphs only."""
    visible, note = _cut(masked(text))
    marked = Marked(visible, annotations, plain=True)
    html = marked.apply(str(escape(marked.source)))
    if flowing:
        return Markup('<div class="plain flowing">{}</div>').format(Markup(_PARAGRAPH.sub("<br><br>", html))) + note
    return Markup('<div class="plain">{}</div>').format(html) + note
