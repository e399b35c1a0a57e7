"""Writing files so that a crash, or a reader in between, meets the old file or the new one and nothing else.

Every file of ours that replaces another goes through `replacing`: written under a hidden name beside it, forced to the
disk, renamed into place, and the folder forced to the disk. Journals (appended files) and locks are out of scope: of
two writers at once, the last wins. A name of a collection or run becomes a folder and a part of addresses.
"""

from __future__ import annotations

import json
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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


def resolved(path: Path) -> Path:
    """Return the file that a path leads to, or as far as it leads: links back to themselves are no error here."""
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file beside `path` to be filled, which takes its place when the block ends without an error.

    Missing folders are made. The permissions of a file that is replaced are kept. After an error nothing is left;
    a killed process leaves the hidden draft `.<random>.part`. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = None
    draft = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        # What replaces a private file must not be open to others while it is written.
        draft.touch(0o666 if mode is None else 0o600, exist_ok=False)
        yield draft
        if mode is not None:
            draft.chmod(mode)
        sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def text_writer(path: Path) -> Iterator[IO[str]]:
    """A UTF-8 text stream whose content takes the place of `path` when the block ends without an error.

    A lone surrogate, which UTF-8 cannot hold, is written as `?`.
    """
    with replacing(path) as draft, draft.open("w", encoding="utf-8", errors="replace") as file:
        yield file


def write_text(path: Path, text: str) -> None:
    """Replace the whole file, as `text_writer` does."""
    with text_writer(path) as file:
        file.write(text)


def write_json(path: Path, value: Any) -> None:
    """Replace the whole file with `value` as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def path_text(path: str | Path) -> str:
    """Return a path as text that UTF-8 can hold: bytes of it that are no UTF-8 as `\\xe9`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
