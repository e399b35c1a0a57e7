"""Records as they are kept."""

from __future__ import annotations

from pathlib import Path

from index.documents import Document, PlacedText, Section
from index.passages import split
from index.records import FileRecord, Records, RecordsWriter

PLACED = (PlacedText(0, 14, 1, 60.0, 90.0, 200.0, 102.0), PlacedText(15, 27, 2, 60.0, 40.0, 180.0, 52.0))
DOCUMENT = Document("a.pdf", "Title", "Zebra stripes. Horse manes.", (Section((), 0, 27, 1, placed=PLACED),))


def counted(text: str) -> int:
    return len(text.split())


def written(folder: Path) -> Path:
    path = folder / "records.sqlite"
    writer = RecordsWriter(folder / "scratch", None)
    writer.add_file(FileRecord("/a.pdf", "a.pdf", "digest salt"))
    writer.add_document(DOCUMENT, "/a.pdf", split(DOCUMENT, 40, counted))
    writer.finish(path)
    writer.close()
    return path


def test_places_are_kept_with_documents_and_passages(tmp_path: Path) -> None:
    records = Records(written(tmp_path))
    assert records.document("a.pdf").sections[0].placed == PLACED
    (passage,) = records.passages_of("a.pdf")
    assert [tuple(box) for box in passage.boxes] == [(0, 27, *line[2:]) for line in PLACED]
    assert records.source("a.pdf").path == "/a.pdf"
    records.close()
