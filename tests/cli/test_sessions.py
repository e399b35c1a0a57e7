"""`anaphora sessions`: who is signed in is listed, and signed out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from server.access import Principal
from server.store import Database, sessions

ADA = Principal("oidc:https://x.example:ada", "Ada", "agent", frozenset({"docs"}))
BOB = Principal("oidc:https://x.example:bob", "Bob", "reader", frozenset({"docs"}))


def test_people_are_listed_and_signed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner().invoke
    assert "Nobody is signed in" in run(app, ["sessions", "list"]).stderr
    database = Database(tmp_path / "anaphora.db")
    secrets = [
        database.write_blocking(lambda c, who=who, seconds=seconds: sessions.begin(c, who, seconds))
        for who, seconds in ((ADA, 60), (ADA, 90), (BOB, 30))
    ]
    database.write_blocking(lambda c: sessions.begin(c, BOB, -1))
    listed = run(app, ["sessions", "list"]).stdout
    assert [listed.count(who.id) for who in (ADA, BOB)] == [2, 1]
    assert "sessions ended: 2" in run(app, ["sessions", "end", ADA.id]).stderr
    again = run(app, ["sessions", "end", ADA.id])
    assert again.exit_code == ExitCode.BAD_INPUT
    assert "is not signed in" in again.stderr
    left = [database.read_blocking(lambda c, one=one: sessions.find(c, one)) for one in secrets]
    assert left == [None, None, BOB]
    noted = database.read_blocking(
        lambda c: [tuple(row) for row in c.exec_driver_sql("SELECT action, about FROM audit")]
    )
    database.close()
    assert noted == [("session.revoke", ADA.id)]
