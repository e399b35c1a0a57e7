"""The prompts of the room: Markdown files, an instruction above the line and the material's frame below it.

A prompt's version is a hash of its file; every row that came of it carries that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rewriter.prompts import load_prompt
from text.sanitize import Interpolated, fill

PACKAGE = "synth.prompts"
NAMES = ("propositions", "dialog", "contextualise", "ground")


@dataclass(frozen=True, slots=True)
class SynthPrompt:
    """An instruction, and the frame that the material of one task is put into."""

    name: str
    system: str
    frame: str
    version: str

    def fill(self, **parts: str) -> Interpolated:
        """The frame with each `{{name}}` replaced by its part, in one pass: what parts hold is never a placeholder."""
        return fill(self.frame, parts)


@cache
def chat_prompt(name: str) -> SynthPrompt:
    """The prompt of that name; one of `NAMES`."""
    prompt = load_prompt(PACKAGE, name)
    system, _, frame = prompt.text.partition("\n---\n")
    return SynthPrompt(name, system.strip(), frame.strip(), prompt.version)
