"""Help answers at once: no command's help loads a heavy library."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from typer.main import get_command

from cli import app

PROGRAM = "from cli import main; main()"

# Beside the heavy ones, the libraries that a command needs only when it works.
FORBIDDEN = {
    "bm25s",
    "chromadb",
    "docutils",
    "fastapi",
    "gradio",
    "httpx",
    "huggingface_hub",
    "langchain",
    "langchain_core",
    "langchain_openai",
    "lxml",
    "numpy",
    "onnxruntime",
    "openai",
    "opentelemetry",
    "prompt_toolkit",
    "pydantic_settings",
    "sentence_transformers",
    "sqlalchemy",
    "starlette",
    "tokenizers",
    "torch",
    "transformers",
    "uvicorn",
    "xllamacpp",
}


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and group of the program."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        yield path
        waiting.extend(((*path, name), below) for name, below in getattr(command, "commands", {}).items())


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_help_loads_no_heavy_library(path: tuple[str, ...]) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", PROGRAM, *path, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Usage: anaphora" in run.stdout
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "typer" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in FORBIDDEN}


def test_help_answers_fast() -> None:
    """The best of three, so that a busy machine does not decide; a heavy import costs a second and more."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", PROGRAM, "--help"], capture_output=True, check=True, timeout=60)
        times.append(time.perf_counter() - start)
    assert min(times) < 1.0
