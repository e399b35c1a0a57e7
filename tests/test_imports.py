"""Which room may import which, and what no module may load merely by being imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.heavy_imports import HEAVY

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = {
    "text": {"text"},
    "index": {"index", "text"},
    "rewriter": {"rewriter", "text"},
    "synth": {"synth", "index", "rewriter", "text"},
    "server": {"server", "synth", "index", "rewriter", "text"},
    "evaluation": {
        "evaluation",
        "server.settings",
        "server.turn",
        "server.evidence",
        "server.recipes",
        "synth",
        "index",
        "rewriter",
        "text",
    },
    "ui": {"ui", "server.chat", "evaluation.reports", "evaluation.errors", "text"},
    "cli": {"cli", "ui", "evaluation", "server", "synth", "index", "rewriter", "text"},
    "testing": {"testing", "index", "rewriter", "text"},
}
OURS = {*ROOMS, "tests", "benchmarks"}
# Modules that exist to speak a library's language and are themselves imported late: they define subclasses of its
# classes, or, with Gradio, their annotations of event handlers are read.
MAY_LOAD = {
    "index/retriever.py": {"langchain_core"},
    "rewriter/reranking/model.py": {"torch"},
    "rewriter/terms/judging.py": {"torch"},
    "rewriter/terms/model.py": {"torch"},
    "rewriter/terms/training.py": {"torch"},
    "server/engines/streaming.py": {"langchain_core", "langchain_openai", "openai"},
    "testing/chat_model.py": {"langchain_core"},
    "ui/app.py": {"gradio"},
}

MODULES = sorted(path for room in ROOMS for path in (REPOSITORY / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def imports(tree: ast.AST, *, at_import: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full name of what is imported; with `at_import` only what runs when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (found for part in node.orelse for found in imports(part, at_import=True))
        else:
            yield from imports(node, at_import=at_import)


def within(name: str, allowed: set[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in allowed)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    allowed = ROOMS[path.relative_to(REPOSITORY).parts[0]]
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for line, name in imports(ast.parse(path.read_text("utf-8")))
        if name.startswith(".") or (within(name, OURS) and not within(name, allowed))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_importing_a_module_loads_no_heavy_library(path: Path) -> None:
    heavy = HEAVY - MAY_LOAD.get(name_of(path), set())
    wrong = [
        f"{name_of(path)}:{line} imports {name} when it is imported; move it into the function that needs it"
        for line, name in imports(ast.parse(path.read_text("utf-8")), at_import=True)
        if within(name, heavy)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_rule_sees_every_kind_of_import() -> None:
    """The two tests above would pass on a walk that sees nothing."""
    source = "\n".join(
        (
            "import torch",
            "from server import settings",
            "if TYPE_CHECKING:\n    import chromadb",
            "def later():\n    import gradio",
            "class Now:\n    import openai",
            "try:\n    from . import sibling\nexcept ImportError:\n    pass",
        )
    )
    tree = ast.parse(source)
    everything = {name for _, name in imports(tree)}
    assert everything == {"torch", "server.settings", "chromadb", "gradio", "openai", "..sibling"}
    assert {name for _, name in imports(tree, at_import=True)} == everything - {"chromadb", "gradio"}


def test_every_room_is_there() -> None:
    assert {path.relative_to(REPOSITORY).parts[0] for path in MODULES} == set(ROOMS)


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name_of(path))
    assert not {name: where for name, where in homes.items() if len(where) > 1}
