"""The page's HTML templates: Jinja with autoescape on and undefined names refused.

Templates decide how things look; what they are given is plain text (escaped here) or `Markup` from
`ui.safe_html`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from server.plugins import page_calls
from text.languages import RIGHT_TO_LEFT, form, gettext, spoken

FOLDER = Path(__file__).parent
NO_STORE: Mapping[str, str] = MappingProxyType({"Cache-Control": "no-store"})


def duration(seconds: float) -> str:
    """A time as a person reads it: `8 ms`, `0.4 s`, `1 min 5 s`."""
    if seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms" if seconds > 0 else "0 ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def plural(count: int, one: str, many: str = "") -> str:
    """`3 sources`, `1 source`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def direction() -> str:
    """Which way the language that is spoken is written, as `dir` says it."""
    return "rtl" if spoken() in RIGHT_TO_LEFT else "ltr"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.install_gettext_callables(gettext, form, newstyle=True)  # type: ignore[attr-defined]
    environment.globals |= {"spoken": spoken, "direction": direction, "has_call": lambda name: name in page_calls()}
    environment.filters |= {"duration": duration, "plural": plural, "number": "{:,}".format}
    return environment


def render(name: str | Path, **values: Any) -> Markup:
    """Render the template `pages/<name>`, or the file of a plugin, with `values`."""
    environment = _environment()
    template = (
        environment.get_template(name) if isinstance(name, str) else environment.from_string(name.read_text("utf-8"))
    )
    return Markup(template.render(**values))


def page(
    name: str | Path,
    allowed: Mapping[str, str],
    *,
    status: int = 200,
    headers: Mapping[str, str] = NO_STORE,
    **values: Any,
) -> HTMLResponse:
    """A template that is a page of its own: it runs the script and the style in it, by their `nonce`, and nothing else.

    `allowed` are further directives of its Content-Security-Policy, or others in their place.
    """
    nonce = secrets.token_urlsafe(16)
    own = f"'nonce-{nonce}'"
    policy = {"default-src": "'none'", "script-src": own, "style-src": own, "base-uri": "'none'"}
    policy |= {"form-action": "'none'", "frame-ancestors": "'none'", **allowed}
    policy_text = "; ".join(f"{name} {value}" for name, value in policy.items())
    sent = {"Content-Security-Policy": policy_text, **headers}
    return HTMLResponse(render(name, nonce=nonce, **values), status, headers=sent)


@cache
def static(*names: str) -> Markup:
    """The texts of the files `static/<name>`, one after the other."""
    return Markup("".join((FOLDER / "static" / name).read_text(encoding="utf-8") for name in names))
