"""What is installed from a wheel is whole: every room, with all that lies in it beside code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from tests.installed import ROOT
from tests.test_imports import ROOMS

PIP = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what is tracked."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("anaphora-*.whl")
    return built


def test_rooms_are_installed_without_tests_and_without_the_client() -> None:
    find = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]["find"]
    # In a process of its own: setuptools puts its distutils in the place of Python's.
    program = "import json, setuptools, sys; print(*setuptools.find_namespace_packages('.', **json.loads(sys.argv[1])))"
    line = [sys.executable, "-c", program, json.dumps(find)]
    found = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in found} == set(ROOMS)
    assert [name for name in found if "tests" in name.split(".")] == []


@pytest.mark.extended
@pytest.mark.slow
def test_the_wheel_holds_every_file_of_every_room(wheel: Path) -> None:
    assert wheel.name == f"anaphora-{version('anaphora')}-py3-none-any.whl"
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = [
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "tests" not in path.relative_to(ROOT).parts
    ]
    assert [name for name in sorted(ours) if "__pycache__" not in name and name not in packed] == []
    assert {f"{room}/py.typed" for room in ROOMS} <= packed
    assert {"rewriter/default/model.onnx", "ui/static/page.js", "server/turn/answer_full.md"} <= packed
    licences = f"anaphora-{version('anaphora')}.dist-info/licenses"
    models = {f"{licences}/rewriter/{path.parent.name}/README.md" for path in (ROOT / "rewriter").glob("*/model.onnx")}
    assert {f"{licences}/LICENSE", f"{licences}/rewriter/data/README.md", *models} <= packed


@pytest.mark.extended
def test_the_wheel_alone_serves_a_folder(wheel: Path, model_home: Path, documents: Path, tmp_path: Path) -> None:
    """In an environment of its own, from another folder, with an empty home; other libraries are the tests' own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANAPHORA"))}
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True, timeout=180)
    (packages,) = fresh.glob("lib/python*/site-packages")
    install = [*PIP, "--python", str(fresh / "bin" / "python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, env=environment, timeout=300)
    # Files with paths in that folder are not read through this one: the checkout is not to be imported.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(model_home / "models")
    line = [str(fresh / "bin" / "anaphora"), "--home", str(home), "serve", "--docs", str(documents), "--port", "0"]
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert " at http://127.0.0.1:" in said, said
            url = said.split(" at ")[1].split()[0]
            request = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}
            answer = httpx.post(f"{url}/v1/chat/completions", json=request, timeout=180).json()
            assert "Parental leave lasts ten weeks." in answer["choices"][0]["message"]["content"]
            assert "text/html" in httpx.get(url, timeout=180).headers["content-type"]
            code = (
                "import cli, pathlib, sys; sys.exit(pathlib.Path(sys.prefix) not in pathlib.Path(cli.__file__).parents)"
            )
            ours = subprocess.run([str(fresh / "bin" / "python"), "-P", "-c", code], cwd=tmp_path, env=environment)
            assert ours.returncode == 0, "another installation than the wheel's was imported"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)
