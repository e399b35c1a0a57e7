"""Boxes in Markdown: MkDocs' `!!! note`, `/// tip` and `::: warning` as blocks with a title.

Only the form is read here. What a box holds is parsed as any Markdown, titles are escaped, and `ui.safe_html`
decides which elements and classes stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import escape

BOX, TITLE = "admonition", "admonition-title"
"""The classes of a box and of its title."""

_FENCE = re.compile(r"\s*(?P<kind>[A-Za-z][\w-]{0,40})\s*(?:\||\[)?\s*(?P<title>[^\n]{0,200}?)\s*\]?\s*")


def install(markdown: MarkdownIt) -> None:
    """Teach `markdown` the three forms."""
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.container import container_plugin

    markdown.use(admon_plugin)
    for name, marker in (("slashes", "/"), ("colons", ":")):
        markdown.use(container_plugin, name, marker=marker, validate=_is_fence, render=_render)


def _is_fence(parameters: str, *_: object) -> bool:
    return _FENCE.fullmatch(parameters) is not None


def _render(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    if token.nesting < 0:
        return "</div>\n"
    found = _FENCE.fullmatch(token.info)
    kind, title = (found["kind"], found["title"]) if found else ("", "")
    return f'<div class="{BOX}"><p class="{TITLE}">{escape(title or kind.replace("-", " ").capitalize())}</p>\n'
