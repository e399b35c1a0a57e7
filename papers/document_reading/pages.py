"""What is read of a file: by layout, with every region of a PDF; and whole pages as they are drawn, to compare with."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from index.errors import LoadError
from index.loaders import load
from index.loaders.pdf import join_lines
from index.loaders.pdf.composing import Mending
from index.loaders.pdf.loading import opened_pdf
from index.loaders.pdf.loading import read as read_regions
from index.loaders.pdf.recognising import Recogniser
from index.loaders.pdf.regions import DROPPED
from index.loaders.reading import MEBIBYTE, clean, find_recogniser

_DIGITS = re.compile(r"\d+")
# Lines at a page's edge that stand on this share of the pages are its running head or foot.
_REPEATED = 0.5
_EDGE_LINES = 2


def extracted(
    path: Path, max_file_mb: float, *, ocr_seconds: float = 300.0, ocr_languages: str = "eng"
) -> dict[str, Any]:
    """Return the content of a file as JSON: `text`, `regions` (of a PDF) and `status`, "ok" or what is wrong with it."""
    warnings: list[str] = []
    recogniser = Recogniser(find_recogniser(), ocr_languages, ocr_seconds)
    try:
        documents = load(path, path.name, max_file_mb, warnings.append, recogniser)
        regions = _regions(path, max_file_mb, recogniser) if path.suffix.lower() == ".pdf" else []
    except LoadError as error:
        return {"text": "", "regions": [], "status": str(error)}
    text = "\n\n".join(document.text for document in documents)
    return {"text": text, "regions": regions, "status": "; ".join(warnings) or "ok"}


def _regions(path: Path, max_file_mb: float, recogniser: Recogniser) -> list[dict[str, Any]]:
    """Return every region: its kind, page from 1, box in points from the top left corner, and text."""
    regions = read_regions(path, int(max_file_mb * MEBIBYTE), recogniser).regions
    mending = Mending([region for region in regions if region.kind not in DROPPED])
    return [
        {
            "kind": region.kind,
            "page": region.page,
            "box": [round(value, 1) for value in region.box],
            "text": mending.text(region),
        }
        for region in regions
    ]


def whole_pages(path: Path, max_file_mb: float) -> str:
    """The text of all pages as they are drawn, without running heads and feet. Raises LoadError."""
    with opened_pdf(path, int(max_file_mb * MEBIBYTE)) as pdf:
        texts = [page.get_textpage().get_text_range().replace("\r\n", "\n") for page in pdf]
    pages = ["\n".join(filter(None, map(str.strip, clean(join_lines(text)).split("\n")))) for text in texts]
    if len(pages) >= 4:
        seen: Counter[str] = Counter()
        for page in pages:
            lines = page.split("\n")
            seen.update({_DIGITS.sub("#", line) for line in lines[:_EDGE_LINES] + lines[-_EDGE_LINES:]})
        running = {line for line, count in seen.items() if count >= _REPEATED * len(pages)}
        pages = ["\n".join(_stripped(page.split("\n"), running)) for page in pages]
    return "\n\n".join(pages)


def _stripped(lines: list[str], running: set[str]) -> list[str]:
    """`lines` without those at the edges that are `running`, the outermost first, and never half of a page."""
    least = len(lines) / 2
    for edge in (0, -1) * _EDGE_LINES:
        if len(lines) - 1 >= least and _DIGITS.sub("#", lines[edge]) in running:
            lines.pop(edge)
    return lines
