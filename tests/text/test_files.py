"""Files that are replaced whole: after a crash, an error or beside a reader, the old one or the new one is there."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from text.files import replacing, text_writer, write_json, write_text

# Writes the file once for every line of `text.files`, each time by a process that is killed before that line.
KILLED = """
import os, signal, sys
from pathlib import Path
from text import files

path, step, ended = Path(sys.argv[1]), 0, False

def write_until(step):
    passed = 0
    def trace(frame, event, _):
        nonlocal passed
        if frame.f_code.co_filename != files.__file__:
            return None
        if event == "line":
            if passed == step:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1
        return trace
    sys.settrace(trace)
    files.write_text(path, "new " * 10_000)
    os._exit(0)

while not ended:
    path.write_text("old")
    if (child := os.fork()) == 0:
        write_until(step)
    ended = os.waitpid(child, 0)[1] == 0
    left = path.read_text()
    print("old" if left == "old" else "new" if left == "new " * 10_000 else f"torn: {left[:40]!r}")
    step += 1
"""


def test_a_writer_killed_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "state.json"], capture_output=True, text=True, timeout=180, check=True
    )
    seen = run.stdout.split("\n")[:-1]
    assert len(seen) > 15
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"old", "new"}


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("the run before")

    def fail() -> None:
        with text_writer(path) as file:
            file.write("half")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011  any write error
        fail()
    assert path.read_text() == "the run before"
    assert list(tmp_path.iterdir()) == [path]
    with text_writer(path) as file:
        file.write("whole")
        file.flush()
        assert path.read_text() == "the run before"
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_forced_to_the_disk_around_the_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rename: Callable[[Path, Path], Path] = Path.replace

    def renaming(source: Path, target: Path) -> Path:
        steps.append("renamed")
        return rename(source, target)

    monkeypatch.setattr("text.files.sync", lambda path: steps.append("folder" if path.is_dir() else "file"))
    monkeypatch.setattr(Path, "replace", renaming)
    write_text(tmp_path / "current", "1")
    assert steps == ["file", "renamed", "folder"]


def test_a_private_file_stays_private_and_a_new_one_is_as_any_other(tmp_path: Path) -> None:
    private, new, plain = tmp_path / "secret", tmp_path / "new", tmp_path / "plain"
    private.touch(0o600)
    plain.touch()
    with replacing(private) as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        draft.write_bytes(b"\x00key")
    write_text(new, "text")
    assert private.read_bytes() == b"\x00key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert new.stat().st_mode == plain.stat().st_mode


def test_missing_folders_are_made_and_names_of_any_length_written(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / ("n" * 255)
    write_text(path, "\ud83d half a pair")
    assert path.read_text("utf-8") == "? half a pair"


def test_json_is_written_to_be_read_by_people_too(tmp_path: Path) -> None:
    write_json(tmp_path / "state.json", {"wanted": {"name": "Über"}})
    text = (tmp_path / "state.json").read_text("utf-8")
    assert json.loads(text) == {"wanted": {"name": "Über"}}
    assert '"name": "Über"' in text
