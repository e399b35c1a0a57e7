"""A finished run's folder: what lies where, and that it is what was written.

rewriter.json     family, lengths, gate, exports, and size and SHA-256 of every file serving needs; written last
tokenizer.json    the one tokenizer of training and serving
export/int8/      CTranslate2, for CPUs; export/float16/ for GPUs
weights/          transformers' safetensors and config; a shipped default may leave them out
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewriter.conditional.form import Architecture, Form, Lengths
from rewriter.conditional.gate import RewriteGate
from rewriter.errors import RunError
from rewriter.tokenizer_file import read_tokenizer

TOKENIZER = "tokenizer.json"
EXPORT = "export"
WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """What serving needs to know of a run. `exports` are folders under `export/`, the CPU's first."""

    family: str
    architecture: Architecture
    lengths: Lengths
    end: str
    gate: RewriteGate
    exports: tuple[str, ...]

    def form(self, folder: Path, *, turns: int | None = None) -> Form:
        """The form of the run's tokenizer, seeing at most `turns` turns; raises RunError where it cannot be read."""
        lengths = self.lengths if turns is None else replace(self.lengths, turns=min(turns, self.lengths.turns))
        return Form(read_tokenizer(folder / TOKENIZER), self.architecture, lengths, end=self.end)

    def as_dict(self) -> dict[str, Any]:
        """What `read` reads back."""
        return {
            "family": self.family,
            "architecture": self.architecture,
            "lengths": self.lengths.as_dict(),
            "end": self.end,
            "gate": self.gate.as_dict(),
            "exports": list(self.exports),
        }


def read(folder: Path, description: dict[str, Any]) -> RunFolder:
    """The run a description tells of. Raises RunError, naming the field, where something is missing."""
    try:
        return RunFolder(
            family=str(description["family"]),
            architecture=description["architecture"],
            lengths=Lengths(**description["lengths"]),
            end=str(description["end"]),
            gate=RewriteGate(**description["gate"]),
            exports=tuple(description["exports"]),
        )
    except (KeyError, TypeError) as error:
        raise RunError(f"The description of {folder.name} lacks or spoils {error}; export the run again.") from error


def fingerprint(folder: Path, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of files, by their path within `folder`."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(files)
    }


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, description: dict[str, Any]) -> None:
    """Raises RunError for the first file that is missing or not the one the run wrote."""
    for name, expected in dict(description.get("files", {})).items():
        path = folder / name
        if not path.is_file():
            raise RunError(f"{path} is missing: the rewriter {folder.name} is incomplete. Copy or train it again.")
        if path.stat().st_size != expected["bytes"] or sha256(path) != expected["sha256"]:
            raise RunError(
                f"{path} is not the file this rewriter was made with: it is damaged or belongs to another run. "
                "Restore it, export the run again, or promote another one."
            )
