"""Names of collections and training runs: a name becomes a folder and a part of addresses."""

from __future__ import annotations

import re

NAME_CHARS = 64
"""The longest name."""

NAME_PATTERN = r"^[A-Za-z0-9]((\.?[A-Za-z0-9_-])*\.?[A-Za-z0-9])?$"
"""The rule without the length, in the words that Python, Rust and JSON schema share."""

NAME_RULE = (
    f"1 to {NAME_CHARS} letters, digits, dots, dashes or underscores, with a letter or digit at both ends and no two "
    "dots together"
)
"""The rule for a person; goes on from "use"."""

_NAME = re.compile(NAME_PATTERN.strip("^$"))


def is_name(text: str) -> bool:
    """Whether something may be called so."""
    return len(text) <= NAME_CHARS and _NAME.fullmatch(text) is not None
