"""Characters that are unsafe to show, or to put into a prompt; one definition of each for the whole project.

*Unsafe to show*, to anybody and anywhere: control characters other than tab and line feed (terminals obey them),
marks that turn the reading direction around (`exe.txt` reads `txt.exe`), and lone surrogates (no UTF-8 holds
them). *Invisible*: what a person does not see and a model reads all the same, such as tag characters that spell
out a hidden instruction; joiners are not among them, for Persian, Indic scripts and emoji are written with those.

Chat servers read the tokens of their templates (`<|im_start|>`, `[INST]`, …) wherever they stand, so a document
or a question that holds one could end its own message and begin another. `escape` breaks such tokens and the
tags our prompts use; people are shown the original.
"""

from __future__ import annotations

import re

import regex

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_REORDERING = r"\u202a-\u202e\u2066-\u2069"
_SURROGATES = r"\ud800-\udfff"
# Zero-width space, direction marks, word joiner and its like, byte order mark; tags and variation selectors.
_INVISIBLE = r"\u061c\u200b\u200e\u200f\u2060-\u2065\u206a-\u206f\ufeff\U000e0000-\U000e0fff"
_UNSAFE = re.compile(f"[{_CONTROLS}{_REORDERING}{_SURROGATES}]")
_UNSEEN = re.compile(f"[{_CONTROLS}{_REORDERING}{_SURROGATES}{_INVISIBLE}]")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def sanitize_text(text: str) -> str:
    """`text` without what is unsafe to show."""
    return _UNSAFE.sub("", text)


def sanitize_line(text: str) -> str:
    """`sanitize_text` text on one line, each run of white space one blank."""
    return " ".join(sanitize_text(text).split())


def without_credentials(text: str) -> str:
    """`text` with user and password hidden in each address."""
    return _CREDENTIALS.sub("***@", text)


def masked(text: str) -> str:
    """`text` with each unsafe character replaced by one other, so that offsets stay: a carriage return by a line end,
    or by a blank before one, and the rest by U+FFFD."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", " \n").replace("\r", "\n"))


def is_showable(text: str) -> bool:
    """Whether nothing in `text` is unsafe to show."""
    return _UNSAFE.search(text) is None


def web_address(value: object) -> str:
    """`value` if it is an http(s) address a person can open, else ""."""
    if not isinstance(value, str) or not value.startswith(("http://", "https://")) or len(value) > 2048:
        return ""
    return "" if not is_showable(value) or any(sign.isspace() or sign in "<>\"'" for sign in value) else value


def seen(text: str) -> str:
    """`text` without what is unsafe to show or invisible: what a person sees is what a model reads."""
    return _UNSEEN.sub("", text)


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
