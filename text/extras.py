"""Libraries that a plain installation leaves out, asked for by the name of the extra that brings them.

`pyproject.toml` says what belongs to which extra. Nothing is imported here, so asking first costs nothing.
"""

from __future__ import annotations

from importlib.util import find_spec


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
