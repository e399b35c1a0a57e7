"""What is installed from a wheel is whole: every room, with all that lies in it beside code."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.installed import ROOT
from tests.test_imports import ROOMS


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_every_room(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "wheel"]
    build = [*pip, "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("anaphora-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = [
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "tests" not in path.parts
    ]
    assert [name for name in sorted(ours) if "__pycache__" not in name and name not in packed] == []
    assert {f"{room}/py.typed" for room in ROOMS} <= packed
    assert {"rewriter/default/model.onnx", "ui/static/page.js", "server/turn/answer_full.md"} <= packed
