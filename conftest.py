"""What every test may ask for: a clean environment, fetched models, a real encoder, a real small LLM.

Models are fetched once, through the model registry, into `ANAPHORA_TEST_HOME` (default: `.home` in the
repository) and shared by all runs. Nothing else is ever written there: collections, databases and logs
of tests belong in `tmp_path`.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.testing

if TYPE_CHECKING:
    from index.encoders import Encoder
    from server.engines import Engine

pytest.register_assert_rewrite("testing.vector_store", "testing.plugin")
pytest_plugins = ["tests.browser", "tests.databases", "tests.door", "tests.parallel", "tests.serving", "tests.towns"]

Declare = Callable[..., Path]

MODELS = (
    "bge-small-en-v1.5", "multilingual-e5-small", "all-minilm-l6-v2", "ms-marco-minilm-l12", "smollm2-135m-instruct"
)  # fmt: skip
REPOSITORY = Path(__file__).resolve().parent
# Read at import, before the environment is cleaned for the first test.
TEST_HOME = Path(os.environ.get("ANAPHORA_TEST_HOME") or REPOSITORY / ".home").resolve()


def pytest_collection_finish() -> None:
    """Spare the collector what stays: it would look at all modules again in each of its rounds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def commands() -> None:
    """Read the signatures of all commands once for each set of groups, and not with each call of a command."""
    build = typer.testing._get_command
    trees: dict[tuple[int, int, int], Any] = {}

    def command(app: typer.Typer) -> Any:
        key = (id(app), len(app.registered_commands), len(app.registered_groups))
        if key not in trees:
            trees[key] = build(app)
        return trees[key]

    typer.testing._get_command = command


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Empty home folders, one after the other. (`mktemp` would look through all earlier ones for each.)"""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(n) for n in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    """No setting of the person who runs the tests reaches them, and no test writes into a real home."""
    for name in list(os.environ):
        if name.startswith("ANAPHORA_"):
            monkeypatch.delenv(name)
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANAPHORA_HOME", str(home / "anaphora"))


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """`declare(group, name="module:object", …)` makes a distribution that declares these, and puts it on the path.

    What it returns is the distribution's folder, for its modules.
    """

    def make(group: str, distribution: str = "shelf", **entries: str) -> Path:
        root = tmp_path / distribution
        info = root / f"{distribution}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", "utf-8")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
        monkeypatch.setattr(sys, "path", [*sys.path, str(root)])
        return root

    return make


@pytest.fixture(scope="session")
def model_home() -> Path:
    """A home folder whose `models/` holds the encoders, the reranker and SmolLM2; only to be read."""
    from server.registry import fetch

    for name in MODELS:
        fetch(name, TEST_HOME)
    return TEST_HOME


@pytest.fixture(scope="session")
def encoder(model_home: Path) -> Encoder:
    """The default one as int8 ONNX: 384 dimensions, no torch."""
    from index.encoders import load_encoder
    from server.registry import resolve

    return load_encoder(resolve("bge-small-en-v1.5", model_home))


@pytest.fixture(scope="session")
def small_llm(model_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """SmolLM2 behind the real local engine: a real path to an LLM, though not to sensible answers."""
    from server.engines import LocalEngine
    from server.registry import resolve
    from server.settings import LLMSettings, Settings

    settings = Settings(
        home=tmp_path_factory.mktemp("small-llm"),
        llm=LLMSettings(model=resolve("smollm2-135m-instruct", model_home), context_tokens=4096, answer_tokens=64),
    )
    engine = LocalEngine(settings)
    engine.start()
    yield engine
    engine.stop()
