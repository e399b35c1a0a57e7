"""Propositions and annotated dialogs made from documents, by any language model, live or through batch files.

What is named here is all that a program needs, and is imported when it is first used. Documents, an encoder and a
`langchain_core` chat model are handed in: a `Settler` brings a run's tasks to an outcome with an asker's answers and
the journal's, and `synthesise` does the run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synth.dialogs.rows import Dialog, DialogMessage, read_dialogs
    from synth.errors import SynthError
    from synth.facts import RunFacts
    from synth.folder import Folder
    from synth.pipeline import SynthPlan, read_sources, synthesise
    from synth.propositions.store import Proposition, read_propositions
    from synth.running import Journal, Paused, Sampling, Settler
    from synth.running.batch import BatchAsker, read_responses
    from synth.running.live import ChatAsker

__all__ = [
    "BatchAsker",
    "ChatAsker",
    "Dialog",
    "DialogMessage",
    "Folder",
    "Journal",
    "Paused",
    "Proposition",
    "RunFacts",
    "Sampling",
    "Settler",
    "SynthError",
    "SynthPlan",
    "read_dialogs",
    "read_propositions",
    "read_responses",
    "read_sources",
    "synthesise",
]

_HOMES = {
    "dialogs.rows": ("Dialog", "DialogMessage", "read_dialogs"),
    "errors": ("SynthError",),
    "facts": ("RunFacts",),
    "folder": ("Folder",),
    "pipeline": ("SynthPlan", "read_sources", "synthesise"),
    "propositions.store": ("Proposition", "read_propositions"),
    "running": ("Journal", "Paused", "Sampling", "Settler"),
    "running.batch": ("BatchAsker", "read_responses"),
    "running.live": ("ChatAsker",),
}
_HOME = {name: f"synth.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
