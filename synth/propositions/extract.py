"""The first prompt: from a window of a document to sentences a model makes of it.

Whether the document says what they say is judged elsewhere (`synth.propositions.align`, `.faithful`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synth.prompts import chat_prompt
from synth.propositions.windows import DocumentWindow
from synth.running import InvalidAnswer, Task
from text.unsafe import escape

STEP = "propositions"
LONGEST = 400
"""Characters of a proposition; what is longer is no simple sentence."""
_SHORTEST_WORDS = 3
_MOST = 80
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"propositions": {"type": "array", "maxItems": _MOST, "items": {"type": "string"}}},
    "required": ["propositions"],
    "additionalProperties": False,
}


def extraction(window: DocumentWindow, count_tokens: Callable[[str], int]) -> Task[tuple[str, ...]]:
    """The task of turning a window into sentences."""
    prompt = chat_prompt(STEP)
    text = escape(window.text)
    user = prompt.fill(
        title=_line(window.document.title) or "(none)",
        heading=_line(" > ".join(window.heading)) or "(none)",
        text=text,
    )
    return Task(
        step=STEP,
        item=f"{window.document.id}, window {window.number + 1}",
        system=prompt.system,
        user=user,
        schema=SCHEMA,
        # Names are written out: the sentences may be longer than the text they come from.
        max_tokens=200 + 2 * count_tokens(text),
        read=read,
        mend=without_last,
    )


def read(data: Any) -> tuple[str, ...]:
    """The sentences of an answer, each one line, none twice. Raises InvalidAnswer."""
    found = data.get("propositions")
    if not isinstance(found, list):
        raise InvalidAnswer('It needs a list "propositions".')
    if not all(isinstance(sentence, str) for sentence in found):
        raise InvalidAnswer('Every entry of "propositions" must be a string.')
    lines = (" ".join(escape(sentence).split()) for sentence in found[:_MOST])
    return tuple(dict.fromkeys(line for line in lines if len(line.split()) >= _SHORTEST_WORDS or _unspaced(line)))


def without_last(data: Any) -> Any:
    """An answer that was cut: the last sentence is half of one."""
    found = data.get("propositions")
    return {"propositions": found[:-1]} if isinstance(found, list) else data


def _unspaced(line: str) -> bool:
    return len(line) >= 2 * _SHORTEST_WORDS and not line.isascii()


def _line(text: str) -> str:
    return " ".join(escape(text).split())[:300]
