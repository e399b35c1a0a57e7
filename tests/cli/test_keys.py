"""`anaphora keys` and `anaphora collections`: who may use what, said at the terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from server.access import Principal
from server.store import Database, credentials, schema

ADA = Principal("oidc:https://x.example:ada", "Ada", "agent", frozenset({"docs"}))
BOB = Principal("oidc:https://x.example:bob", "Bob", "reader", frozenset({"docs"}))


def run(home: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def only_key(home: Path) -> credentials.ApiKey:
    database = Database(home / "anaphora.db")
    try:
        (key,) = database.read_blocking(credentials.list_keys)
        return key
    finally:
        database.close()


@pytest.mark.parametrize(
    ("flags", "role", "groups"),
    [
        ((), "operator", {"*"}),
        (("--role", "reader"), "reader", {"default"}),
        (("--group", "support", "--group", "sales"), "reader", {"support", "sales"}),
        (("--role", "operator", "--group", "support"), "operator", {"support"}),
    ],
)
def test_a_key_has_what_its_flags_say(tmp_path: Path, flags: tuple[str, ...], role: str, groups: set[str]) -> None:
    run(tmp_path, "keys", "create", "desk", *flags)
    made = only_key(tmp_path)
    assert (made.role, made.groups, made.expires) == (role, groups, None)
    listed = run(tmp_path, "keys", "list")
    assert role in listed
    assert ("every group" if groups == {"*"} else min(groups)) in listed


def test_a_key_ends_when_it_was_said_to(tmp_path: Path) -> None:
    run(tmp_path, "keys", "create", "desk", "--expires", "90d")
    ends = only_key(tmp_path).expires
    assert ends is not None
    assert abs(ends - time.time() - 90 * 86_400) < 60


@pytest.mark.parametrize("flags", [("--expires", "soon"), ("--expires", "-1d"), ("--group", "a b"), ("--group", "")])
def test_what_cannot_be_is_refused(tmp_path: Path, flags: tuple[str, str]) -> None:
    run(tmp_path, "keys", "create", "desk", *flags, code=ExitCode.BAD_INPUT)


def test_a_collection_is_granted_and_taken_back(command_home: Path) -> None:
    assert run(command_home, "collections", "grant", "docs").split() == ["default"]
    run(command_home, "collections", "grant", "docs", "support")
    run(command_home, "collections", "grant", "docs", "sales")
    assert run(command_home, "collections", "grant", "docs").split() == ["sales", "support"]
    run(command_home, "collections", "grant", "docs", "support", "--revoke")
    last = run(command_home, "collections", "grant", "docs", "sales", "--revoke", code=ExitCode.BAD_INPUT)
    assert "last group" in last
    database = Database(command_home / "anaphora.db")
    assert database.read_blocking(lambda connection: schema.groups_of(connection, "docs")) == ["sales"]
    database.close()


@pytest.mark.parametrize("group", [["support"], []])
def test_a_collection_that_is_not_there_is_granted_to_nobody(command_home: Path, group: list[str]) -> None:
    said = run(command_home, "collections", "grant", "dosc", *group, code=ExitCode.NOT_FOUND)
    assert "no collection dosc" in said
    assert "There are: docs." in said


def test_indexing_names_the_group_of_a_collection(command_home: Path, documents: Path) -> None:
    run(command_home, "index", str(documents), "--collection", "new", "--group", "support")
    assert run(command_home, "collections", "grant", "new").split() == ["support"]


def test_people_are_listed_and_signed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    invoke = CliRunner().invoke
    assert "There is no key" in invoke(app, ["keys", "list"]).stderr
    database = Database(tmp_path / "anaphora.db")
    secrets = [
        database.write_blocking(lambda c, who=who, seconds=seconds: credentials.begin_session(c, who, seconds))
        for who, seconds in ((ADA, 60), (ADA, 90), (BOB, 30))
    ]
    database.write_blocking(lambda c: credentials.begin_session(c, BOB, -1))
    listed = invoke(app, ["keys", "list"]).stdout
    assert [listed.count(who.id) for who in (ADA, BOB)] == [2, 1]
    assert "sessions ended: 2" in invoke(app, ["keys", "revoke", ADA.id]).stderr
    again = invoke(app, ["keys", "revoke", ADA.id])
    assert again.exit_code == ExitCode.BAD_INPUT
    assert "is not signed in" in again.stderr
    left = [database.read_blocking(lambda c, one=one: credentials.find_session(c, one)) for one in secrets]
    assert left == [None, None, BOB]
    database.close()


def test_opening_up_says_what_the_settings_still_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No key is required" in run(tmp_path, "keys", "revoke", "--open", "--yes")
    monkeypatch.setenv("ANAPHORA_SERVER__HOST", "0.0.0.0")
    assert "still demand" in run(tmp_path, "keys", "revoke", "--open", "--yes")
