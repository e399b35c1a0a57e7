"""Hostile text made unable to pass for a prompt's own form.

Chat servers read the tokens of their templates (`<|im_start|>`, `[INST]`, …) wherever they stand, so a document
or a question that holds one could end its own message and begin another. `escape` breaks such tokens and the
tags our prompts use; people are shown the original.
"""

from __future__ import annotations

import regex

from text.unsafe import seen

_TAGS = r"system|user|assistant|passages?|documents?|evidence|conversation|cannot[\s_]*answer"
_ANGLE = regex.compile(
    r"<(?=[|｜])|<(?=/?\s*(?:s|bos|eos|pad|unk|think|tool_call|tool_response|start_of_turn|end_of_turn"
    rf"|{_TAGS})\b)"
    # Our own tags in other clothes, which a model may take for them: blanks, full-width brackets.
    rf"|[<＜﹤](?=\s*[/／]?\s*(?:{_TAGS})\s*[/／]?\s*[>＞﹥])",
    regex.IGNORECASE,
)
_SQUARE = regex.compile(r"\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\b)|<<(?=/?SYS)")


def escape(text: str) -> str:
    """`text` without invisible characters and with template tokens and prompt tags broken at their first sign."""
    return str(_SQUARE.sub("(", _ANGLE.sub("‹", seen(text))))
