"""The page's HTML templates: Jinja with autoescape on and undefined names refused.

Templates decide how things look; what they are given is plain text (escaped here) or `Markup` from
`ui.safe_html`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from text.translation import RIGHT_TO_LEFT, form, gettext, spoken

FOLDER = Path(__file__).parent


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
    environment.globals |= {"spoken": spoken, "direction": direction}
    environment.filters |= {"duration": duration, "plural": plural, "number": "{:,}".format}
    return environment


def render(name: str, **values: Any) -> Markup:
    """The template `pages/<name>` with `values`."""
    return Markup(_environment().get_template(name).render(**values))


@cache
def static(name: str) -> str:
    """The text of `static/<name>`."""
    return (FOLDER / "static" / name).read_text(encoding="utf-8")
