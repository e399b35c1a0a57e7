"""A finished conditional run's folder: what lies where.

rewriter.json     family, lengths, gate, exports, and size and SHA-256 of every file serving needs; written last
tokenizer.json    the one tokenizer of training and serving
export/int8/      CTranslate2, for CPUs; export/float16/ for GPUs
weights/          transformers' safetensors and config; a shipped default may leave them out
adapter/          family chat, instead of both: low-rank weights as peft and vLLM read them, and the base's tokenizer
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewriter.conditional.form import Architecture, Form, Lengths
from rewriter.errors import RunError
from rewriter.gate import RewriteGate
from rewriter.tokenizer_file import TOKENIZER, read_tokenizer

EXPORT = "export"
WEIGHTS = "weights"
ADAPTER = "adapter"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """What serving needs to know of a run. `exports` are folders under `export/`, the CPU's first."""

    family: str
    architecture: Architecture
    lengths: Lengths
    end: str
    gate: RewriteGate
    exports: tuple[str, ...]
    words: bool = False
    """The term rewriter decides and gives its words (`rewriter.conditional.hinted`)."""

    def form(self, folder: Path, *, messages: int | None = None) -> Form:
        """The form of the run's tokenizer, seeing at most so many messages; raises RunError where it cannot be read."""
        lengths = self.lengths if messages is None else replace(self.lengths, turns=min(messages, self.lengths.turns))
        if (folder / ADAPTER).is_dir():
            from rewriter.conditional.chat_form import ChatForm

            return ChatForm.open(folder / ADAPTER, lengths)
        return Form(read_tokenizer(folder / TOKENIZER), self.architecture, lengths, end=self.end)


def read(folder: Path, description: dict[str, Any]) -> RunFolder:
    """The run a description tells of. Raises RunError, naming the field, where something is missing."""
    try:
        return RunFolder(
            family=str(description["family"]),
            architecture=description["architecture"],
            lengths=Lengths(**description["lengths"]),
            end=str(description["end"]),
            gate=RewriteGate.of(description),
            exports=tuple(description["exports"]),
            words=bool(description.get("words", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"The description of {folder.name} lacks or spoils {error}; export the run again.") from error
