"""`anaphora move`, and what the other commands say of a database on a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import add_plugin_commands, app

add_plugin_commands()


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_home_goes_on_with_its_database_on_a_server(
    postgres_place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path / "home"))
    assert run("keys", "create", "desk").exit_code == 0
    said = run("move")
    assert said.exit_code != 0
    assert "Say in database.url" in said.stderr
    monkeypatch.setenv("ANAPHORA_DATABASE__URL", postgres_place.replace("anaphora@", "anaphora:geheim@"))
    said = run("move")
    assert said.exit_code == 0, said.stderr
    assert "Copied 2 rows" in said.stderr
    assert "desk" in run("keys", "list").stdout
    assert "not empty" in run("move").stderr
    said = run("backup", str(tmp_path / "b.tar"))
    assert "pg_dump --format=custom" in said.stderr
    told = run("doctor").stdout
    assert "PostgreSQL" in told
    assert "✓ audit log" in told
    assert run("restore", str(tmp_path / "b.tar"), "--yes").exit_code == 0
    assert "desk" in run("keys", "list").stdout
    everything = said.stderr + told + run("config").stdout + run("config", "--json").stdout
    assert "geheim" not in everything
    monkeypatch.setenv("ANAPHORA_DATABASE__URL", "postgresql://anaphora:geheim@127.0.0.1:1/anaphora")
    for words in (("keys", "list"), ("doctor",)):
        said = run(*words)
        assert said.exit_code != 0
        assert "cannot be reached" in said.output
        assert "geheim" not in said.output
