"""`anaphora keys` and `anaphora collections`: who may use what, said at the terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from server.store import Database, grants, keys


def run(home: Path, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def only_key(home: Path) -> keys.ApiKey:
    database = Database(home / "anaphora.db")
    try:
        (key,) = database.read_blocking(keys.listing)
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
    last = run(command_home, "collections", "grant", "docs", "sales", "--revoke", code=ExitCode.BUSY)
    assert "last group" in last
    database = Database(command_home / "anaphora.db")
    assert database.read_blocking(lambda connection: grants.of(connection, "docs")) == ["sales"]
    database.close()


@pytest.mark.parametrize("group", [["support"], []])
def test_a_collection_that_is_not_there_is_granted_to_nobody(command_home: Path, group: list[str]) -> None:
    said = run(command_home, "collections", "grant", "dosc", *group, code=ExitCode.NOT_FOUND)
    assert "no collection dosc" in said
    assert "There are: docs." in said


def test_indexing_names_the_group_of_a_collection(command_home: Path, documents: Path) -> None:
    run(command_home, "index", str(documents), "--collection", "new", "--group", "support")
    assert run(command_home, "collections", "grant", "new").split() == ["support"]
