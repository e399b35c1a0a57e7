"""How a Python process of ours is started: nothing in the working directory can stand in for a module of it."""

from __future__ import annotations

import os
import sys


def python_command(*arguments: str) -> list[str]:
    """The command of an interpreter like this one, which looks for modules only where they are installed."""
    return [sys.executable, "-P", *arguments]


def python_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`, to go with `python_command`.

    Relative and empty entries of PYTHONPATH mean the working directory again, and are left out.
    """
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if os.path.isabs(entry))
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": path, **changes}
