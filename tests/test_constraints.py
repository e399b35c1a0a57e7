"""`constraints.txt` names one version of everything that `.[dev]` brings, and it is the one at work."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def pins() -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def needed() -> dict[str, str]:
    """What `.[dev]` brings on this machine, by name: the installed version."""
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
                installed = metadata.distribution(name)
                found[name] = installed.version.partition("+")[0]
                follow(installed.requires or (), wanted)

    follow(project["dependencies"], "")
    follow(project["optional-dependencies"]["dev"], "dev")
    return found


def test_everything_installed_is_pinned_as_it_is() -> None:
    pinned = pins()
    different = {name: version for name, version in needed().items() if pinned.get(name) != version}
    assert different == {}, "pin these in constraints.txt"
