"""Constructs of PDF."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.constructs.making import Make


def pdf(contents: list[bytes], extra: Mapping[int, bytes] | None = None, root: bytes = b"") -> bytes:
    """A PDF with a page for each content stream; `extra` objects count from 1000000, `root` joins the catalogue."""
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R" + root + b">>",
        2: b"<</Type/Pages/Count %d/Kids[%s]>>"
        % (len(contents), b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(contents)))),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        **(extra or {}),
    }
    for n, content in enumerate(contents):
        objects[4 + 2 * n] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (5 + 2 * n)
        )
        objects[5 + 2 * n] = b"<</Length %d>>stream\n%s\nendstream" % (len(content), content)
    made, places = bytearray(b"%PDF-1.7\n"), {}
    for number in sorted(objects):
        places[number] = len(made)
        made += b"%d 0 obj%s endobj\n" % (number, objects[number])
    start = len(made)
    made += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        made += b"%d 1\n%010d 00000 n \n" % (number, place)
    made += b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (max(objects) + 1, start)
    return bytes(made)


_SHOW = b"BT /F1 9 Tf %d %d Td (word %d) Tj ET\n"


def _pages(size: int) -> bytes:
    return pdf([_SHOW % (50, 700, n) for n in range(max(1, size // 300))])


def _objects(size: int) -> bytes:
    return pdf([b"".join(_SHOW % (50 + n * 31 % 500, 50 + n * 7 % 700, n) for n in range(max(1, size // 36)))])


def _line(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 50 700 Td (" + b"word " * max(1, size // 5) + b") Tj ET"])


def _word(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 50 700 Td (" + b"x" * size + b") Tj ET"])


def _hyphens(size: int) -> bytes:
    return pdf([b"BT /F1 9 Tf 10 TL 50 700 Td " + b"(word-) Tj T* " * max(1, size // 14) + b"ET"])


def _bookmarks(size: int, chapter: bytes = b"Chapter") -> bytes:
    count = max(1, min(5_000, size // 120))
    lines = b"".join(b"(%s %d) Tj T* (and its words) Tj T* " % (chapter, n) for n in range(count))
    marks = {
        1_000_001 + n: b"<</Title(Chapter %d)/Parent 1000000 0 R/Dest[4 0 R/Fit]%s>>"
        % (n, b"/Next %d 0 R" % (1_000_002 + n) if n + 1 < count else b"")
        for n in range(count)
    }
    top = b"<</Type/Outlines/First 1000001 0 R/Last %d 0 R/Count %d>>" % (1_000_000 + count, count)
    page = b"BT /F1 9 Tf 1 TL 50 700 Td " + lines + b"ET"
    return pdf([page], {1_000_000: top, **marks}, b"/Outlines 1000000 0 R")


def _nested(size: int) -> bytes:
    return pdf([b"[" * size + b"BT /F1 9 Tf 50 700 Td (words) Tj ET"])


PDF: Mapping[str, Make] = {
    "pages": _pages,
    "text objects": _objects,
    "one line": _line,
    "one word": _word,
    "hyphens": _hyphens,
    "bookmarks": _bookmarks,
    "bookmarks that name nothing": partial(_bookmarks, chapter=b"Words"),
    "nested arrays": _nested,
    "nested states": lambda size: pdf([b"q " * (size // 2) + b"BT /F1 9 Tf 50 700 Td (words) Tj ET"]),
    "pages of pictures": lambda size: pdf([b"0 0 10 10 re f " * (size // 15) + b"BT /F1 9 Tf 9 9 Td (words) Tj ET"]),
}
