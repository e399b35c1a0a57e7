"""Files that their parser was killed over: they are not parsed again until they change or somebody asks.

Kept beside the versions of a collection, and written at once: a restart does not try them again.
"""

from __future__ import annotations

import json
from pathlib import Path

from text.files import write_json

FILE = "quarantine.json"


class Quarantine:
    """The quarantined files of the collection in `folder`, each with what it was like and why it was given up."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._files = self._read()

    def reason(self, path: Path, fingerprint: str) -> str:
        """Why the file is left alone; empty where it is not, or has changed."""
        known = self._files.get(str(path), {})
        return known.get("reason", "") if known.get("fingerprint") == fingerprint else ""

    def add(self, path: Path, fingerprint: str, reason: str) -> None:
        """Leave a file alone from now on. Raises OSError."""
        self._files[str(path)] = {"fingerprint": fingerprint, "reason": reason}
        self._write()

    def release(self, path: Path) -> None:
        """Forget a file, if it is known. Raises OSError."""
        if self._files.pop(str(path), None) is not None:
            self._write()

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            files = json.loads(self._path.read_text("utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # the worst that follows is that a file is tried once more
        sound = isinstance(files, dict) and all(isinstance(one, dict) for one in files.values())
        return files if sound else {}

    def _write(self) -> None:
        write_json(self._path, {"files": self._files})
