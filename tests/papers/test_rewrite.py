"""`python -m papers.orconvqa rewrite`: what is written, and what is not asked again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from papers.orconvqa.__main__ import app

HISTORY = [{"role": "user", "text": "How do I appeal?"}, {"role": "assistant", "text": "Send form DS-7."}]
QUERIES = [{"id": "a", "history": HISTORY, "text": "and by fax?"}, {"id": "b", "text": "What is a form?"}]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, QUERIES)), encoding="utf-8")
    return ["rewrite", "--queries", str(path), "--out", str(tmp_path / "r.jsonl")]


def test_the_default_rewriter_widens_follow_ups_and_what_is_finished_is_kept(
    command: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "r.jsonl"
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(row["id"], row["text"], row["decision"]) for row in rows] == [
        ("a", "and by fax? appeal Send form DS-7", "expand"),
        ("b", "What is a form?", "keep"),
    ]
    assert not out.with_name("r.jsonl.partial").exists()
