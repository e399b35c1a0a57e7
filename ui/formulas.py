"""LaTeX between dollar signs as MathML, which browsers set by themselves.

A formula goes through Markdown and its cleaning as text; only then it becomes elements, made here: of what the
converter says, the listed elements and attributes are taken, and every text is escaped. What cannot be read stays as
written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import unescape
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import escape

from ui.annotations import DELIMITERS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ELEMENTS = frozenset({
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msup", "msub", "msubsup", "mfrac", "msqrt", "mroot", "mover",
    "munder", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom",
})  # fmt: skip
ATTRIBUTES = frozenset(("display", "mathvariant", "stretchy", "displaystyle", "scriptlevel", "accent"))
_VALUE = re.compile(r"[a-z0-9.+ -]{1,24}")
_LONGEST = 1000
_FORMULA = re.compile(r"[\\^_=<>+]|^\s*\w\s*$")
_MARKED = re.compile(r'<code class="formula( block)?">(.*?)</code>', re.DOTALL)


def install(markdown: MarkdownIt) -> None:
    """Teach `markdown` formulas: they come out as `<code class="formula">`, and only `set_formulas` sets them."""
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    markdown.use(dollarmath_plugin, allow_labels=False, allow_space=False, allow_digits=False, double_inline=True)
    for name in ("math_inline", "math_inline_double", "math_block"):
        markdown.add_render_rule(name, _render)


def _render(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    block = token.type != "math_inline"
    if not block and not _FORMULA.search(token.content):
        return str(escape(f"${token.content}$"))  # a price, a variable
    marked = f'<code class="formula{" block" if block else ""}">{escape(token.content.strip())}</code>'
    return f"<p>{marked}</p>\n" if token.type == "math_block" else marked


def set_formulas(html: str) -> str:
    """Clean HTML with its formulas set."""
    return _MARKED.sub(lambda found: _set(unescape(found[2]), bool(found[1])) or found[0], html)


@lru_cache(512)
def _set(latex: str, block: bool) -> str:
    """MathML of a formula; empty where it cannot be read, or where a mark begins or ends in it."""
    if len(latex) > _LONGEST or any(char in latex for char in DELIMITERS):
        return ""
    from latex2mathml import converter, exceptions

    kinds = (kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception))
    others = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
    unreadable: tuple[type[Exception], ...] = (*kinds, *others)
    try:
        made = converter.convert_to_element(latex, display="block" if block else "inline")
    except unreadable:
        return ""
    return _written(made)


def _written(element: Element) -> str:
    inside = str(escape(unescape(element.text or ""))) + "".join(_written(child) for child in element)
    if element.tag not in ELEMENTS:
        return inside
    kept = {name: value for name, value in element.items() if name in ATTRIBUTES and _VALUE.fullmatch(value)}
    attributes = "".join(f' {name}="{value}"' for name, value in kept.items())
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"
