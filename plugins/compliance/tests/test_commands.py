"""`anaphora audit`: what commands did is listed and checked."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import add_plugin_commands, app
from cli.shared.error_handler import ExitCode
from plugins.compliance import audit_log
from server.access import LOCAL, entry
from server.store import Database

add_plugin_commands()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path


def run(*words: str, code: int = ExitCode.OK) -> Result:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result


def rows(*words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("audit", "list", "--json", *words).stdout.splitlines()]


def test_keys_made_revoked_and_no_longer_needed_are_noted(home: Path) -> None:
    run("keys", "create", "desk")
    key_id = str(rows()[0]["about"])
    run("keys", "revoke", key_id)
    run("keys", "revoke", key_id, code=ExitCode.BAD_INPUT)
    run("keys", "revoke", "--open", "--yes")
    acts = [(row["action"], row["about"], row["principal"], row["origin"]) for row in rows()]
    assert [act for act in acts if act[0] != "log.export"] == [
        ("key.create", key_id, "local", "terminal of ann"),
        ("key.revoke", key_id, "local", "terminal of ann"),
        ("key.open", "", "local", "terminal of ann"),
    ]
    assert rows()[0]["detail"] == {"name": "desk", "role": "operator", "groups": ["*"]}
    listed = run("audit", "list", "--action", "key.revoke").stdout
    assert "terminal of ann" in listed
    assert "key.create" not in listed


def test_an_export_is_noted_and_may_begin_later(home: Path) -> None:
    run("keys", "create", "desk")
    assert [row["action"] for row in rows("--principal", "local")] == ["key.create", "log.export"]
    assert [row["action"] for row in rows("--limit", "1")] == ["log.export"]
    assert rows("--since", "2999-01-01") == []
    assert rows("--principal", "key:none") == []


def test_texts_from_outside_do_not_disturb_the_table(home: Path) -> None:
    database = Database(home / "anaphora.db")
    record = entry(LOCAL, "document.upload", "fax.md", collection="@docs\n\u202e")
    database.write_blocking(lambda c: audit_log.append(c, record))
    database.close()
    assert "\u202e" not in run("audit", "list").stdout


def test_tampering_shows(home: Path) -> None:
    run("keys", "create", "desk")
    run("keys", "create", "attic")
    head = run("audit", "verify").stdout.strip()
    run("keys", "create", "cellar")
    run("audit", "verify", "--head", head)
    run("audit", "verify", "--head", "2", code=ExitCode.BAD_INPUT)
    refused = run("audit", "verify", "--head", f"1:{head.partition(':')[2]}", code=ExitCode.STORAGE)
    assert "Row 1 is not the one that was noted" in refused.stderr
    connection = sqlite3.connect(home / "anaphora.db")
    connection.executescript("DROP TRIGGER audit_unchanged; UPDATE audit SET origin = '' WHERE n = 1")
    connection.close()
    refused = run("audit", "verify", code=ExitCode.STORAGE)
    assert "tampered with" in refused.stderr
    assert "Row 1" in refused.stderr


@pytest.mark.usefixtures("command_home")
def test_what_takes_texts_out_of_a_home_or_into_it_is_noted(
    tmp_path: Path, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    before = len(rows())
    run("index", str(documents), "-c", "other")
    run("backup", str(tmp_path / "b.tar"))
    run("collections", "delete", "other", "--yes")
    assert [(row["action"], row["about"], row["origin"]) for row in rows()[before:-1]] == [
        ("collection.index", "other", "terminal of ann"),
        ("home.backup", "", "terminal of ann"),
        ("collection.delete", "other", "terminal of ann"),
    ]
    run("restore", str(tmp_path / "b.tar"), "--yes")
    # The log is the one of then, and says so.
    assert [row["action"] for row in rows()[before:-1]] == ["collection.index", "home.restore"]
    run("audit", "verify")


def test_doctor_says_whether_the_log_is_as_it_was_written(home: Path) -> None:
    run("keys", "create", "desk")
    report = CliRunner().invoke(app, ["doctor"]).stdout
    assert "✓ audit log" in report
    with sqlite3.connect(home / "anaphora.db") as connection:
        connection.execute("DROP TRIGGER audit_unchanged")
        connection.execute("UPDATE audit SET principal = 'key:another' WHERE n = 1")
    report = CliRunner().invoke(app, ["doctor"]).stdout
    assert "✗ audit log" in report
