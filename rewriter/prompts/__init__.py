"""Prompts as Markdown files: loaded from a package folder, versioned by their content.

The rooms above keep their own files and load them with `load_prompt`; what a prompt is filled with,
and how hostile text is escaped, is decided where it is used.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text, and a version that changes whenever the text does (12 hex digits of its SHA-256)."""

    name: str
    text: str
    version: str


@cache
def load_prompt(package: str, name: str) -> Prompt:
    """The prompt in `<name>.md` of a package such as `rewriter.prompts`, white space at both ends cut.

    Raises FileNotFoundError where the package has no such file.
    """
    text = files(package).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])
