"""Which package may import which, that no folder holds a cycle, and that imports load no heavy library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import pairwise, takewhile
from pathlib import Path

from tests.heavy_imports import HEAVY

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = {
    "text": {"text"},
    "index": {"index", "text"},
    "rewriter": {"rewriter", "text"},
    "synth": {"synth", "index", "rewriter", "text"},
    "server": {"server", "synth", "index", "rewriter", "text"},
    "evaluation": {
        "evaluation", "server.settings", "server.turn", "synth", "index", "rewriter", "text",
    },
    "ui": {"ui", "server.chat", "server.api.dependencies", "server.plugins", "evaluation", "text"},
    "plugins": {"plugins", "cli", "ui", "server", "synth", "index", "rewriter", "text"},
    "cli": {"cli", "ui", "evaluation", "server", "synth", "index", "rewriter", "text"},
    "testing": {"testing", "server", "index", "rewriter", "text"},
}  # fmt: skip
OURS = {*ROOMS, "tests", "benchmarks", "papers", "plugins"}
# Modules that exist to speak a library's language and are themselves imported late: they define subclasses of its
# classes, or, with Gradio, their annotations of event handlers are read.
MAY_LOAD = {
    "index/retriever.py": {"langchain_core"},
    "rewriter/conditional_training.py": {"torch"},
    "rewriter/terms_training.py": {"torch"},
    "server/engines/streaming.py": {"langchain_core", "langchain_openai", "openai"},
    "ui/app.py": {"gradio"},
}

MODULES = sorted(
    path
    for room in ROOMS
    for path in (REPOSITORY / room).rglob("*.py")
    if "tests" not in path.relative_to(REPOSITORY).parts
)


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


def imports(tree: ast.AST, *, at_import: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full name of what is imported; with `at_import` only what runs when the module is imported."""
    for node in ast.iter_child_nodes(tree) if at_import else nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (found for part in node.orelse for found in imports(part, at_import=True))
        elif at_import and isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from imports(node, at_import=True)


def at_runtime(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """As `imports`, without those for type checkers alone."""
    typing = {
        id(part)
        for node in nodes(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in node.body
        for part in ast.walk(child)
    }
    for node in nodes(tree):
        if id(node) not in typing and isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(ast.Module([node], []))


def within(name: str, allowed: set[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in allowed)


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def started(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of modules that are started as programs: the string behind "-m"."""
    for node in nodes(tree):
        if isinstance(node, ast.List | ast.Tuple | ast.Call):
            items = node.args if isinstance(node, ast.Call) else node.elts
            values = [item.value if isinstance(item, ast.Constant) else None for item in items]
            for flag, name in pairwise(values):
                if flag == "-m" and isinstance(name, str):
                    yield node.lineno, name


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in MODULES}


def test_a_package_imports_and_starts_only_the_packages_below_it() -> None:
    wrong = []
    for path, tree in trees().items():
        allowed = ROOMS[path.relative_to(REPOSITORY).parts[0]]
        wrong += [
            f"{name_of(path)}:{line} uses {name}"
            for line, name in (*imports(tree), *started(tree))
            if name.startswith(".") or (within(name, OURS) and not within(name, allowed))
        ]
    assert not wrong, "\n".join(wrong)


def test_no_folder_holds_a_cycle() -> None:
    """Children of a folder, files and packages alike, import each other in one direction only."""
    known = {module_of(path) for path in MODULES}
    edges: dict[str, dict[str, set[str]]] = {}
    for path, tree in trees().items():
        source = module_of(path)
        for _, name in (*at_runtime(tree), *started(tree)):
            target = next((name.rsplit(".", n)[0] for n in range(2) if name.rsplit(".", n)[0] in known), "")
            a, b = source.split("."), target.split(".")
            shared = list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
            a, b = a[len(shared) :], b[len(shared) :]
            if target and a and b:
                children = edges.setdefault(".".join(part for part, _ in shared), {})
                children.setdefault(a[0], set()).add(b[0])
    cycles = []
    for folder, children in edges.items():
        try:
            TopologicalSorter(children).prepare()
        except CycleError as error:
            cycles.append(f"{folder or 'the repository'}: {' -> '.join(error.args[1])}")
    assert not cycles, "\n".join(cycles)


def test_importing_a_module_loads_no_heavy_library() -> None:
    wrong = []
    for path, tree in trees().items():
        heavy = HEAVY - MAY_LOAD.get(name_of(path), set())
        wrong += [
            f"{name_of(path)}:{line} imports {name} when it is imported; move it into the function that needs it"
            for line, name in imports(tree, at_import=True)
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


def test_programs_that_are_started_are_seen() -> None:
    tree = ast.parse('run([python, "-P", "-m", "index.loaders.sandbox"])\ncall("-m", "cli")')
    assert {name for _, name in started(tree)} == {"index.loaders.sandbox", "cli"}


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name_of(path))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_benchmarks_import_only_what_is_there() -> None:
    """Type checks and other tests leave them out."""
    missing = []
    for path in sorted((REPOSITORY / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and within(node.module, set(ROOMS)):
                module = import_module(node.module)
                for alias in node.names:
                    with suppress(ModuleNotFoundError):
                        import_module(f"{node.module}.{alias.name}")
                    if not hasattr(module, alias.name):
                        missing.append(f"{name_of(path)}:{node.lineno} {node.module}.{alias.name}")
    assert not missing, "\n".join(missing)
