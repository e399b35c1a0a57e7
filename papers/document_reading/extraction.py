"""What of a PDF's words is read: token precision, recall and F1 against a text that people made of it.

Three ways are compared: whole pages as they are drawn, the same cut at "References", and by layout; a fourth is by
layout from pictures of the pages, as a scanner makes them. Counting words says nothing about their order.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from evaluation.metrics import Estimate, estimate
from evaluation.questions import json_rows, present, text
from papers.document_reading.pages import extracted, whole_pages

ARMS = ("whole", "cut", "layout")
SCANNED = "scanned"
"""The arm of pages that are pictures, which takes seconds a page."""
_SCAN_DPI = 300

_TOKEN = re.compile(r"[a-z0-9]+")
_REFERENCES = re.compile(r"(?im)^\W*(?:\d+\.?\s*)?references\W*$")


class Overlap(NamedTuple):
    """Token precision, recall and F1 of one document."""

    precision: float
    recall: float
    f1: float


@dataclass
class Extraction:
    """Overlaps by arm, a value a document in the same order; `seconds` by arm, `pages` of all documents."""

    overlaps: dict[str, list[Overlap]] = field(default_factory=lambda: {arm: [] for arm in ARMS})
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ARMS, 0.0))
    pages: int = 0
    failed: list[str] = field(default_factory=list)

    def means(self, arm: str) -> Overlap:
        """Averages over documents."""
        rows = self.overlaps[arm]
        return Overlap(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))

    def gain(self, arm: str, baseline: str) -> Estimate:
        """How much higher the F1 of one arm is than another's, with a bootstrap over documents."""
        pairs = zip(self.overlaps[arm], self.overlaps[baseline], strict=True)
        differences = [one.f1 - other.f1 for one, other in pairs]
        return estimate(differences, range(len(differences)))


def overlap(found: str, gold: str) -> Overlap:
    """The multisets of both texts' tokens, compared; two empty texts are the same."""
    one, other = (Counter(_TOKEN.findall(words.lower())) for words in (found, gold))
    if not one and not other:
        return Overlap(1.0, 1.0, 1.0)
    shared = (one & other).total()
    precision, recall = shared / max(1, one.total()), shared / max(1, other.total())
    return Overlap(precision, recall, 2 * precision * recall / max(1e-12, precision + recall))


def cut(words: str) -> str:
    """A text up to the last line that says "References" alone."""
    found = list(_REFERENCES.finditer(words))
    return words[: found[-1].start()] if found else words


def measure(
    data: Path, max_file_mb: float, every: int = 1, advance: Callable[[], None] = lambda: None, *, scans: bool = False
) -> Extraction:
    """Read every Nth of the papers of `data/scisumm` in all ways; with `scans` also from pictures of their pages."""
    papers = documents(data)
    arms = (*ARMS, SCANNED) if scans else ARMS
    result = Extraction({arm: [] for arm in arms}, dict.fromkeys(arms, 0.0))
    with TemporaryDirectory() as folder:
        for path in list(papers)[::every]:
            read: dict[str, str] = {}
            began = time.perf_counter()
            read["whole"] = whole_pages(path, max_file_mb)
            result.seconds["whole"] += time.perf_counter() - began
            ways = [("layout", path)]
            if scans:
                ways.append((SCANNED, _scanned(path, Path(folder) / path.name)))
            for arm, file in ways:
                began = time.perf_counter()
                found = extracted(file, 8 * max_file_mb if file != path else max_file_mb, ocr_seconds=3600)
                result.seconds[arm] += time.perf_counter() - began
                if found["status"] != "ok":
                    result.failed.append(f"{path.name} ({arm}): {found['status']}")
                read[arm] = str(found["text"])
                if arm == "layout":
                    result.pages += max((region["page"] for region in found["regions"]), default=0)
            read["cut"] = cut(read["whole"])
            for arm in arms:
                result.overlaps[arm].append(overlap(read[arm], papers[path]))
            advance()
    result.seconds["cut"] = result.seconds["whole"]
    return result


def _scanned(path: Path, scan: Path) -> Path:
    """Write a PDF whose pages are pictures of those of another; where it lies."""
    import pypdfium2

    made = pypdfium2.PdfDocument.new()
    for page in pypdfium2.PdfDocument(path):
        width, height = page.get_size()
        image = pypdfium2.PdfImage.new(made)
        image.set_bitmap(page.render(scale=_SCAN_DPI / 72, grayscale=True))
        image.set_matrix(pypdfium2.PdfMatrix().scale(width, height))
        sheet = made.new_page(width, height)
        sheet.insert_obj(image)
        sheet.gen_content()
    made.save(scan)
    return scan


def documents(data: Path) -> Mapping[Path, str]:
    """The PDFs of `data/scisumm` with their texts."""
    folder = data / "scisumm"
    file = present(folder / "documents.jsonl", "The set scisumm", "docs/lab/evaluation.md says what --data holds.")
    return {
        folder / "pdf" / f"{text(row, '_id', where)}.pdf": text(row, "text", where) for where, row in json_rows(file)
    }
