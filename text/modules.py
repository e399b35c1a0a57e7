"""Libraries that a plain installation leaves out, asked for by the name of the extra that brings them.

`pyproject.toml` says what belongs to which extra. Nothing is imported here, so asking first costs nothing.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EXACT_BYTES = ("session.x64quantprecision", "1")
"""An option of onnxruntime's sessions: on processors with AVX2 and no VNNI, sums of int8 products would overflow."""


class MissingExtra(Exception):
    """A library that a plain installation leaves out is needed; the message names the extra that brings it."""


def need_extra(extra: str, what: str, *modules: str, error: type[Exception] = MissingExtra) -> None:
    """Raises `error` where one of `modules` is not installed.

    `extra` may be several, by commas. `what` begins the sentence: "Training".
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise error(
            f"{what} needs {', '.join(missing)}, which a plain installation leaves out. Install it with "
            f"`make install EXTRAS={extra}`, or `pip install -c constraints.txt 'anaphora[{extra}]'` in the "
            "environment Anaphora runs in."
        )


PROBE_SECONDS = 3.0
"""A hub that has not answered by then counts as unreachable: on many machines there is none."""


def unreachable() -> str | None:
    """Why the hub cannot be used now, as half a sentence; None when it answers."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return "HF_HUB_OFFLINE is set"
    try:
        httpx.head(endpoint(), timeout=PROBE_SECONDS, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        return f"it does not answer ({str(error) or type(error).__name__})"
    return None


def endpoint() -> str:
    """Where the hub is."""
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")


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


class PluginError(Exception):
    """No distribution declares what was asked for, or what it declares cannot be loaded."""


def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group such as `anaphora.stores`, by name.

    Where two distributions declare one name, it is the one that comes first on the path, as with modules.
    """
    points: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        points.setdefault(entry.name, entry)
    return points


def load_plugin(group: str, name: str, *, kind: str, builtin: Iterable[str] = ()) -> Any:
    """The object that entry point `name` of `group` points to.

    `kind` is what a person calls it ("vector store") and `builtin` are the names the caller knows itself; both only
    word the error. Raises PluginError.
    """
    declared = plugins(group)
    if name not in declared:
        names = ", ".join(sorted({*builtin, *declared})) or "none"
        raise PluginError(
            f"There is no {kind} {name!r}. There are: {names}. "
            f"A package that brings one declares it as an entry point of {group!r} and is installed beside Anaphora."
        )
    entry = declared[name]
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        package = entry.dist.name if entry.dist else "an unnamed package"
        raise PluginError(
            f"The {kind} {name!r} that {package} declares as {entry.value!r} cannot be loaded ({error}). "
            f"Install what {package} needs, another version of it, or choose another {kind}."
        ) from error
