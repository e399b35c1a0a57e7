"""A page as a picture: what a worker of `index.loaders.sandbox` answers with. `index.loaders.pdf.drawing` draws it."""

from __future__ import annotations

from typing import NamedTuple

from index.errors import LoadError


class PagePicture(NamedTuple):
    """A page as PNG; its size in points is what boxes count in."""

    png: bytes
    width: float
    height: float


class PageMissing(LoadError):
    """A document has no such page."""
