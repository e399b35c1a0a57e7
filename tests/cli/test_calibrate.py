"""`anaphora eval calibrate` on a real collection with the packaged rewriter."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from index.records import Records
from index.version import CollectionFolder
from server.settings import Settings

HISTORY = [
    {"role": "user", "text": "How do I apply for parental leave?"},
    {"role": "assistant", "text": "With form PL-7."},
]


def files(folder: Path, relevant: str) -> list[str]:
    questions = folder / "q.jsonl"
    questions.write_text(json.dumps({"id": "q", "history": HISTORY, "text": "and by fax?", "relevant": [relevant]}))
    return ["eval", "calibrate", "--questions", str(questions), "--out", str(folder / "made.toml")]


def passage_of(home: Path, document_id: str) -> str:
    records = Records(next(CollectionFolder(home / "collections", "docs").sound()).records)
    return records.passages_of(document_id)[0].id


def test_the_best_settings_are_written_and_the_curve_is_shown(command_home: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, files(tmp_path, passage_of(command_home, "leave.md")))
    assert result.exit_code == 0, result.output
    assert "(written)" in result.stdout
    assert result.stderr.count(" ms ") >= 10
    settings = Settings(home=command_home, retrieval={"profile": str(tmp_path / "made.toml")})
    assert settings.retrieval.profile.variants.expanded.lexical > 0


def test_questions_without_a_passage_are_told(command_home: Path, tmp_path: Path) -> None:
    command = files(tmp_path, "x")
    (tmp_path / "q.jsonl").write_text(
        json.dumps({"id": "q", "text": "and by fax?", "quotes": ["stands nowhere at all"]})
    )
    result = CliRunner().invoke(app, command)
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "names or quotes a passage" in result.stderr


def test_passages_of_another_index_choose_no_settings(command_home: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, files(tmp_path, "a-passage-of-before"))
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "collection as it is now" in result.stderr
    assert not (tmp_path / "made.toml").exists()
