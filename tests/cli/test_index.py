"""Indexing, listing and deleting from the command line, with a real encoder and real collections."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.shared.error_handler import ExitCode
from index.collection import list_collections
from server.store import Database, collection_rows
from text.sanitize import is_showable


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "appeal.md").write_text(
        "# Appeals\n\nSend form DS-7 to the office.\n\n## By fax\n\nFax it to 555-0100.\n"
    )
    (folder / "fees.md").write_text("# Fees\n\nThe fee is 12 dollars.\n")
    return folder


def anaphora(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_folder_becomes_a_collection(home: Path, docs: Path) -> None:
    result = anaphora("index", docs, "--collection", "c")
    assert result.exit_code == 0, result.output
    assert "c: 2 indexed; 3 passages, 3 embedded" in result.stdout
    (info,) = list_collections(home / "collections")
    assert (info.name, info.documents, info.passages) == ("c", 2, 3)
    listed = anaphora("collections")
    assert listed.exit_code == 0
    assert info.version in listed.stdout


@pytest.mark.extended
def test_another_embedding_model_is_proposed_for_documents_in_a_language_that_this_one_does_not_read(
    home: Path, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "garantie.md").write_text("# Garantie\n\nDie Garantie gilt zwei Jahre ab dem Tag des Kaufs.\n", "utf-8")
    (foreign / "hosho.md").write_text("# 保証\n\n保証期間はご購入の日から二年間です。\n", "utf-8")
    told = " ".join(anaphora("index", foreign, "--collection", "c").stderr.split())
    assert "All documents are in German and Japanese, which the embedding model bge-small-en-v1.5 does not" in told
    proposed = dict(re.findall(r"(ANAPHORA_INDEX__\w+)=(\S+?),? ", told))
    doctor = anaphora("doctor").stdout
    assert "collection c: all documents are in German and Japanese" in doctor

    assert "embedding model bge" not in anaphora("index", docs, "--collection", "english").stderr
    shutil.copytree(foreign, docs, dirs_exist_ok=True)
    assert "2 of 4 documents are in" in anaphora("index", docs, "--collection", "english").stderr

    assert set(proposed) == {"ANAPHORA_INDEX__ENCODER", "ANAPHORA_INDEX__LANGUAGE"}
    for name, value in proposed.items():
        monkeypatch.setenv(name, value)
    done = anaphora("index", foreign, "--collection", "c")
    assert "2 embedded" in done.stdout, "as it says, with the model that it names"
    assert "embedding model" not in done.stderr


def test_only_what_changed_is_embedded_again(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "c")
    (docs / "fees.md").write_text("# Fees\n\nThe fee is 15 dollars.\n")
    (docs / "appeal.md").unlink()
    (docs / "new.txt").write_text("Something new.")
    result = anaphora("index", docs, "-c", "c")
    assert "c: 2 indexed, 1 deleted; 2 passages, 2 embedded" in result.stdout
    assert "c: 2 unchanged; 2 passages, 0 embedded" in anaphora("index", docs, "-c", "c").stdout


def test_a_failing_file_is_named_and_stops_nothing(home: Path, docs: Path) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (docs / "corpus.jsonl").write_text('{"_id": "p1", "text": "Boats float."}\nnonsense\n')
    result = anaphora("index", docs, "-c", "c")
    assert result.exit_code == 0, result.output
    assert "broken.pdf" in result.stdout
    assert re.search(r"corpus\.jsonl \(indexed\): .*line", result.stdout), "what was left out of a file is told"
    assert "3 indexed, 1 failed" in result.stdout
    assert "corpus.jsonl" not in anaphora("index", docs, "-c", "c").stdout


def test_a_file_name_cannot_steer_the_terminal(home: Path, docs: Path) -> None:
    (docs / "evil\x1b]0;owned\x07\x1b[2J\x9b\nerror: all is lost \u202efdp.pdf").write_bytes(b"%PDF-1.7 nothing")
    (docs / "cut\udce4.pdf").write_bytes(b"%PDF-1.7 nothing")
    result = anaphora("index", docs, "-c", "c")
    assert result.exit_code == 0, result.output
    assert "2 indexed, 2 failed" in result.stdout
    assert "evil]0;owned[2J error: all is lost fdp.pdf" in result.stdout
    assert is_showable(result.stdout)


def test_nothing_indexed_is_an_error(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    empty = anaphora("index", folder, "-c", "c")
    assert empty.exit_code == ExitCode.BAD_INPUT
    assert str(folder) in empty.stderr.replace("\n", "")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    failed = anaphora("index", folder, "-c", "c")
    assert failed.exit_code == ExitCode.BAD_INPUT
    assert "broken.pdf" in failed.stdout
    assert anaphora("index", folder / "nowhere", "-c", "c").exit_code == ExitCode.BAD_INPUT


def test_where_a_collection_came_from_is_remembered(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "c")
    database = Database(home / "anaphora.db")
    try:
        assert database.write_blocking(lambda connection: collection_rows.remembered_sources(connection, "c")) == [docs]
    finally:
        database.close()


def test_a_collection_is_deleted_only_when_confirmed(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "c")
    asked = CliRunner().invoke(app, ["collections", "delete", "c"], input="n\n")
    assert asked.exit_code != 0
    assert list_collections(home / "collections")
    assert anaphora("collections", "delete", "c", "--yes").exit_code == 0
    assert not list_collections(home / "collections")
    missing = anaphora("collections", "delete", "c", "--yes")
    assert missing.exit_code == ExitCode.NOT_FOUND
    assert "'c'" in missing.stderr
    assert sorted(path.name for path in docs.iterdir()) == ["appeal.md", "fees.md"]


def test_a_bad_name_is_refused(home: Path, docs: Path) -> None:
    result = anaphora("index", docs, "-c", "../up")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "../up" in result.stderr


@pytest.mark.extended
@pytest.mark.slow
def test_an_interrupt_leaves_the_collection_as_it_was(home: Path, docs: Path, tmp_path: Path) -> None:
    anaphora("index", docs, "-c", "c")
    before = list_collections(home / "collections")
    rows = ({"_id": str(n), "text": f"Row {n} speaks of the number {n} at some length. " * 3} for n in range(1500))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(map(json.dumps, rows)))
    running = subprocess.Popen(
        [sys.executable, "-c", "from cli import main; main()", "index", str(corpus), "-c", "c"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ANAPHORA_HOME": str(home)},
    )
    assert running.stderr is not None
    try:
        for said in running.stderr:
            if "embedding" in said:
                break
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait(120) == ExitCode.INTERRUPTED
    finally:
        running.kill()
        running.stderr.close()
    assert "Traceback" not in rest
    assert list_collections(home / "collections") == before


def test_doctor_names_each_problem_with_its_remedy(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "docs")
    models = home / "models"
    target = models.resolve()
    models.unlink()
    models.mkdir()
    for folder in target.iterdir():
        if folder.name != "ms-marco-minilm-l12":
            (models / folder.name).symlink_to(folder)
    result = CliRunner(env={"ANAPHORA_LLM__MODEL": "http://127.0.0.1:9/v1"}).invoke(app, ["doctor"])
    assert result.exit_code == ExitCode.UNEXPECTED
    said = " ".join(result.stdout.split())
    assert "anaphora models fetch ms-marco-minilm-l12" in said
    assert "http://127.0.0.1:9/v1 does not answer" in said
    assert "collection docs: 2 documents, 3 passages" in said


def test_a_file_whose_name_is_no_utf_8_stops_no_other(home: Path, docs: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(docs) + b"/caf\xe9.md"))
    odd.write_text("# Cafe\n\nThe cafe.\n")
    result = anaphora("index", odd, docs / "fees.md", "-c", "docs")
    assert result.exit_code == 0, result.output
    assert "caf\\xe9.md (failed)" in result.stdout
    assert "1 indexed, 1 failed" in result.stdout
    database = Database(home / "anaphora.db")
    try:
        assert database.read_blocking(collection_rows.remembered_sources, "docs") == [docs / "fees.md"]
    finally:
        database.close()


def test_doctor_is_content_with_a_complete_installation(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "docs")
    result = CliRunner(env={"ANAPHORA_LLM__MODEL": "none"}).invoke(app, ["doctor"])
    assert result.exit_code == 0, result.stdout
    assert "✗" not in result.stdout
    assert "✓ scanned pages: " in result.stdout


def test_doctor_says_of_a_model_that_is_not_there_one_thing_only(home: Path, docs: Path) -> None:
    models = home / "models"
    target = models.resolve()
    models.unlink()
    models.mkdir()
    for name in ("bge-small-en-v1.5", "ms-marco-minilm-l12"):
        (models / name).symlink_to(target / name)
    for model, said in (("qwen2.5-coder-1.5b-instruct", "language model"), (f"{docs}/none.gguf", "answers")):
        result = CliRunner(env={"ANAPHORA_LLM__MODEL": model}).invoke(app, ["doctor"])
        assert result.exit_code == ExitCode.UNEXPECTED
        about = [line for line in result.stdout.splitlines() if model in line and not line.startswith("  ")]
        assert [line.partition(":")[0] for line in about] == [f"✗ {said}"]


def test_doctor_sees_a_broken_collection(home: Path, docs: Path) -> None:
    anaphora("index", docs, "-c", "docs")
    anaphora("index", docs, "-c", "whole")
    for version in (home / "collections" / "docs" / "versions").iterdir():
        shutil.rmtree(version / "lexical")
    result = CliRunner(env={"ANAPHORA_LLM__MODEL": "none"}).invoke(app, ["doctor"])
    assert result.exit_code == ExitCode.UNEXPECTED
    assert "✗ collection docs" in result.stdout
    assert "✓ collection whole" in result.stdout


def test_what_no_version_can_be_read_of_is_deleted_as_well(home: Path, docs: Path) -> None:
    anaphora("index", str(docs), "--collection", "c")
    folder = home / "collections" / "c"
    (folder / "current").unlink()
    for manifest in folder.glob("versions/*/manifest.json"):
        manifest.unlink()
    asked = CliRunner().invoke(app, ["collections", "delete", "c"], input="n\n")
    assert "what is left of c" in asked.output
    assert folder.is_dir()
    assert anaphora("collections", "delete", "c", "--yes").exit_code == 0
    assert not folder.exists()
