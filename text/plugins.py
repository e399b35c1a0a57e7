"""What other installed distributions add to Anaphora, declared by them as entry points.

Here they are found and loaded; what one must be is said by the room that asks (`docs/develop/extending.md`). Nothing is
imported before it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any


class PluginError(Exception):
    """No distribution declares what was asked for, or what it declares cannot be loaded."""


def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group such as `anaphora.stores`, by name.

    Where two distributions declare one name, it is the one that comes first on the path, as with modules.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


def load_plugin(group: str, name: str, *, kind: str, builtin: Iterable[str] = ()) -> Any:
    """The object that entry point `name` of `group` points to.

    `kind` is what a person calls it ("vector store") and `builtin` are the names the caller knows itself; both only
    word the error. Raises PluginError.
    """
    declared = plugins(group)
    if name not in declared:
        known = ", ".join(sorted({*builtin, *declared})) or "none"
        raise PluginError(
            f"There is no {kind} {name!r}. There are: {known}. "
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
