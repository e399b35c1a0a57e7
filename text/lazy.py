"""Packages whose names are imported when they are first used.

What a package exports stands in its stub, `__init__.pyi`, one import for each name: type checkers read it, and so does
`exports`, so that nothing is listed twice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def exports(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package, given its `__name__` and `__file__`."""
    stub = ast.parse(Path(file).with_name("__init__.pyi").read_text("utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module)
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return list(homes), get
