"""The ground under the other rooms: sentences, words, unsafe characters, files, names, extras and plugins, one of each.

What is named here is what a program, or a distribution that adds to Anaphora, needs of it; it is imported when it is
first used. This room imports no other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from text.extras import MissingExtra
    from text.files import replacing, text_writer, write_json, write_text
    from text.names import is_name
    from text.plugins import PluginError
    from text.sentences import Sentence, sentence_spans
    from text.unsafe import showable
    from text.words import stems, tokenize

__all__ = [
    "MissingExtra",
    "PluginError",
    "Sentence",
    "is_name",
    "replacing",
    "sentence_spans",
    "showable",
    "stems",
    "text_writer",
    "tokenize",
    "write_json",
    "write_text",
]

_HOMES = {
    "extras": ("MissingExtra",),
    "files": ("replacing", "text_writer", "write_json", "write_text"),
    "names": ("is_name",),
    "plugins": ("PluginError",),
    "sentences": ("Sentence", "sentence_spans"),
    "unsafe": ("showable",),
    "words": ("stems", "tokenize"),
}
_HOME = {name: f"text.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
