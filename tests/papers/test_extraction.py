"""How many of a PDF's words are read, by cases counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from index.loaders.reading import find_recogniser
from papers.document_reading.extraction import cut, measure, overlap


def test_tokens_are_counted_as_often_as_they_stand() -> None:
    assert overlap("a a b", "A b b, c") == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert overlap("", "") == (1, 1, 1)
    assert overlap("", "a") == (0, 0, 0)


def test_a_text_is_cut_at_its_last_references() -> None:
    assert cut("See the\nReferences\nin a.\n7 REFERENCES\nB. 1999.") == "See the\nReferences\nin a.\n"
    assert cut("no references here") == "no references here"


def test_three_ways_of_reading_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "scisumm"
    (folder / "pdf").mkdir(parents=True)
    canvas = Canvas(str(folder / "pdf" / "p.pdf"), pagesize=(400, 600))
    for n, line in enumerate(["The words.", "References", "Author. 1999. Title."]):
        canvas.drawString(60, 500 - 60 * n, line)
    canvas.save()
    (folder / "documents.jsonl").write_text(json.dumps({"_id": "p", "text": "The words."}))
    found = measure(tmp_path, 64, scans=bool(find_recogniser()))
    if "scanned" in found.overlaps:
        assert found.means("scanned") == (1, 1, 1)
        del found.overlaps["scanned"]
    assert {arm: round(found.means(arm).precision, 2) for arm in found.overlaps} == {
        "whole": 0.33,
        "cut": 1,
        "layout": 1,
    }
    assert found.gain("layout", "cut").mean == 0
    assert (found.pages, found.failed) == (1, [])
