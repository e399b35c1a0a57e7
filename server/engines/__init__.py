"""What writes the answers: a model on this machine, a server at a URL, or nothing.

`open_engine` chooses by `llm.model`: `none`; an http(s) URL of an OpenAI-compatible server; else a GGUF file or
the name of a fetched catalogue model, run here.
"""

from server.engines.base import Engine
from server.engines.errors import EngineError, EngineFailed, EngineUnreachable
from server.engines.local import LocalEngine
from server.engines.none import NoEngine
from server.engines.remote import RemoteEngine
from server.settings import Settings


def open_engine(settings: Settings) -> Engine:
    """The engine of these settings, not yet started: use it in `with`, or call `start` and `stop`."""
    model = settings.llm.model
    if model.casefold() == "none":
        return NoEngine()
    if settings.llm.remote:
        return RemoteEngine(settings)
    return LocalEngine(settings)


__all__ = [
    "Engine",
    "EngineError",
    "EngineFailed",
    "EngineUnreachable",
    "LocalEngine",
    "NoEngine",
    "RemoteEngine",
    "open_engine",
]
