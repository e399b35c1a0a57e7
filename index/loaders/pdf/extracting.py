"""A PDF as its regions: what `index.loaders.pdf.load` makes a document of, part by part, for whoever checks it."""

from __future__ import annotations

from typing import Any

from index.loaders.pdf.composing import Mending
from index.loaders.pdf.loading import PdfContent
from index.loaders.pdf.regions import DROPPED


def regions(content: PdfContent) -> list[dict[str, Any]]:
    """Every region in reading order: kind, page from 1, box in points from the top left corner, and text."""
    mending = Mending([region for region in content.regions if region.kind not in DROPPED])
    return [
        {
            "kind": region.kind,
            "page": region.page,
            "box": [round(value, 1) for value in region.box],
            "text": mending.text(region),
        }
        for region in content.regions
    ]
