"""Front matter: the YAML block that heads a Markdown file, as a title and flat metadata.

Malformed front matter is no reason to lose a document: it then says nothing, and is still kept out
of the sections.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from index.documents import Metadata, MetadataValue
from index.loaders.reading import one_line
from text.unsafe import is_showable

if TYPE_CHECKING:
    import yaml

_MAX_BLOCK = 64 * 1024
_MAX_KEYS = 32
_MAX_KEY = 64
_MAX_VALUE = 512
_RESERVED = frozenset({"title", "source", "format", "url"})
_BIGGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What front matter says, and `end`, the offset behind it (0 where there is none)."""

    end: int = 0
    title: str = ""
    url: str = ""
    metadata: Metadata = field(default_factory=dict)


def read_front_matter(text: str) -> FrontMatter:
    """The front matter of `text`, which must use ``\\n`` line ends."""
    if not text.startswith("---") or text.split("\n", 1)[0].rstrip() != "---":
        return FrontMatter()
    body = text.index("\n") + 1 if "\n" in text else len(text)
    at = body
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if text[at:line_end].rstrip() in ("---", "..."):
            return _parse(text[body:at], min(line_end + 1, len(text)))
        at = line_end + 1
        if at - body > _MAX_BLOCK:
            break
    return FrontMatter()  # never closed: a rule across the page, not front matter


def flat_metadata(values: Mapping[Any, Any]) -> dict[str, MetadataValue]:
    """The scalars of `values` that a filter can use, bounded in number and length; the rest is left out."""
    flat: dict[str, MetadataValue] = {}
    for key, value in values.items():
        if len(flat) >= _MAX_KEYS:
            break
        if not isinstance(key, str) or key != one_line(key, _MAX_KEY) or not key or key in _RESERVED:
            continue
        scalar = _scalar(value)
        if scalar is not None:
            flat[key] = scalar
    return flat


def web_address(value: object) -> str:
    """`value` if it is an http(s) address a person can open, else ""."""
    if not isinstance(value, str) or not value.startswith(("http://", "https://")) or len(value) > 2048:
        return ""
    return "" if not is_showable(value) or any(sign.isspace() or sign in "<>\"'" for sign in value) else value


def _scalar(value: object) -> MetadataValue | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _BIGGEST else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        words = one_line(value, 2 * _MAX_VALUE)
        return words if 0 < len(words) <= _MAX_VALUE else None  # a value cut short would equal nothing
    return None


@cache
def _plain_loader() -> type[yaml.SafeLoader]:
    """A safe loader without aliases and merge keys: with them, 800 bytes can stand for more than fits in memory."""
    import yaml

    class PlainLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("front matter may not use aliases")
            return super().compose_node(parent, index)

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Leave merge keys out instead of copying what they name."""
            node.value = [pair for pair in node.value if pair[0].tag != "tag:yaml.org,2002:merge"]

    return PlainLoader


def _parse(block: str, end: int) -> FrontMatter:
    import yaml

    try:
        values = yaml.load(block, _plain_loader())
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return FrontMatter(end)
    if not isinstance(values, dict):
        return FrontMatter(end)
    title = values.get("title")
    url = next(filter(None, (web_address(values.get(key)) for key in ("url", "source", "canonical_url"))), "")
    return FrontMatter(end, one_line(title) if isinstance(title, str) else "", url, flat_metadata(values))
