"""What an installation of Anaphora brings, by following what the installed distributions ask for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@cache
def brought(*extras: str) -> dict[str, str]:
    """What a plain installation with `extras` brings on this machine, by canonical name: the installed version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()

    def follow(requirements: Iterable[str], extra: str) -> None:
        for requirement in map(Requirement, requirements):
            if requirement.marker and not any(requirement.marker.evaluate({"extra": one}) for one in (extra, "")):
                continue
            name = canonicalize_name(requirement.name)
            for wanted in ("", *sorted(requirement.extras)):
                if (name, wanted) in seen:
                    continue
                seen.add((name, wanted))
                if name == project["name"]:
                    follow(project["optional-dependencies"].get(wanted, ()), wanted)
                    continue
                try:
                    installed = metadata.distribution(name)
                except metadata.PackageNotFoundError:
                    # Of an extra that the tests do without.
                    found[name] = ""
                    continue
                found[name] = installed.version.partition("+")[0]
                follow(installed.requires or (), wanted)

    follow(project["dependencies"], "")
    for extra in extras:
        follow(project["optional-dependencies"][extra], extra)
    return found


def left_out() -> set[str]:
    """Importable names of what only the extras bring, for those distributions that are called like their module."""
    return {name.replace("-", "_") for name in brought("dev").keys() - brought().keys()} | {"sklearn"}
