"""`anaphora standalone`: quotes in, readable quotes out, resumable, by rules where there is no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.shared.error_handler import ExitCode
from papers.decontextualization.__main__ import app

ROW = {
    "id": "1",
    "snippet": "However, we use NER [2] on `arr[0]` (see Figure 3).",
    "title": "Entities",
    "abstract": "A text about names.",
    "section": "Method",
    "paragraph": "However, we use NER [2] on `arr[0]` (see Figure 3).",
    "passages": [{"id": "p1", "text": "Named entity recognition (NER) finds names."}],
}


def run(folder: Path, rows: list[dict[str, Any]], *words: str, code: int = ExitCode.OK) -> list[dict[str, Any]]:
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ["--home", str(folder / "home"), "batch", "--input", str(source), "--out", str(out), *words]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()] if code == ExitCode.OK else []


@pytest.mark.parametrize("method", ["insert", "prompted"])
def test_a_line_for_each_quote_in_their_order(tmp_path: Path, method: str) -> None:
    rows = [ROW, {"id": "2", "snippet": "Water is wet."}]
    found = run(tmp_path, rows, "--model", "none", "--method", method)
    assert [set(row) for row in found] == [{"id", "text", "spans", "questions", "refused"}] * 2
    assert found[0]["text"] == ("we [the authors of “Entities”] use NER [Named entity recognition] [2] on `arr[0]`.")
    assert "".join(span["text"] for span in found[0]["spans"] if span["kind"] != "added") == ROW["snippet"]
    assert found[0]["questions"][1] == {
        "question": "What does NER stand for?", "answer": "Named entity recognition", "passage": "p1"
    }  # fmt: skip
    assert found[1] == {
        "id": "2", "text": "Water is wet.", "spans": [{"kind": "kept", "text": "Water is wet."}], "questions": [],
        "refused": "",
    }  # fmt: skip
    assert not (tmp_path / "out.jsonl.partial").exists()
