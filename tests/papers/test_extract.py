"""`anaphora extract`: a line a file, and no file read twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from index.loaders import load
from papers.document_reading.__main__ import app


def written(path: Path, words: str) -> Path:
    canvas = Canvas(str(path), pagesize=(400, 600))
    canvas.drawString(60, 500, words)
    canvas.save()
    return path


def rows(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_a_line_a_file_with_regions_and_status(tmp_path: Path) -> None:
    good, broken, out = written(tmp_path / "a.pdf", "Bicycles go there."), tmp_path / "b.pdf", tmp_path / "out.jsonl"
    broken.write_bytes(b"%PDF-1.7 and then nothing")
    command = ["extract", str(good), str(broken), "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    first, second = rows(out)
    assert (first["path"], first["status"], first["text"]) == (str(good), "ok", load(good, "a.pdf")[0].text)
    (region,) = first["regions"]  # type: ignore[misc]
    assert (region["kind"], region["page"], region["text"]) == ("text", 1, "Bicycles go there.")
    x0, y0, x1, y1 = region["box"]
    assert 59 <= x0 < x1 <= 200
    assert 85 <= y0 < 100 < y1 <= 106
    assert (second["text"], second["regions"]) == ("", [])
    assert "is broken" in str(second["status"])

    # What is cut short goes on where it stopped; what changed is read again.
    (tmp_path / "out.jsonl.partial").write_text(json.dumps({**first, "text": "kept"}) + '\n{"path": "cut')
    out.unlink()
    os.utime(good, (1, 1))
    CliRunner().invoke(app, command)
    assert [row["text"] for row in rows(out)] == ["kept", ""]
    written(good, "Others go elsewhere.")
    os.utime(good, (2**31, 2**31))
    CliRunner().invoke(app, command)
    assert rows(out)[0]["text"] == "Others go elsewhere."
    assert not (tmp_path / "out.jsonl.partial").exists()
