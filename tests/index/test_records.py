"""Records as they are kept, and as versions before this one wrote them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
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
    assert [tuple(box) for box in passage.boxes] == [PLACED[0][2:], PLACED[1][2:]]
    assert records.source("a.pdf").path == "/a.pdf"
    records.close()


def test_records_without_places_are_read_and_gone_on_with(tmp_path: Path) -> None:
    path = written(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE passages DROP COLUMN boxes")
        (sections,) = db.execute("SELECT sections FROM documents").fetchone()
        db.execute("UPDATE documents SET sections = ?", (json.dumps([one[:6] for one in json.loads(sections)]),))
    db.close()
    before = Records(path)
    (passage,) = before.passages_of("a.pdf")
    assert (passage.text, passage.boxes, before.document("a.pdf").sections[0].placed) == (DOCUMENT.text, (), ())
    before.close()

    writer = RecordsWriter(tmp_path / "scratch", path)
    other = replace(DOCUMENT, id="b.pdf")
    writer.add_document(other, "/b.pdf", split(other, 40, counted))
    writer.finish(tmp_path / "after.sqlite")
    writer.close()
    after = Records(tmp_path / "after.sqlite")
    assert [bool(after.passages_of(name)[0].boxes) for name in ("a.pdf", "b.pdf")] == [False, True]
    after.close()
