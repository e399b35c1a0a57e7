"""Engines that write the answers: a model on this machine, a server at a URL, or nothing.

`open_engine` chooses by `llm.model`: `none`; an http(s) URL of an OpenAI-compatible server, `ollama:NAME` or `vllm`;
`NAME:…` for an engine that another package brings; else a GGUF file or the name of a fetched model, run here.
"""

import re
from pathlib import Path

from server.engines.base import Engine as Engine
from server.engines.base import EngineError as EngineError
from server.engines.base import EngineFailed as EngineFailed
from server.engines.base import EngineUnreachable as EngineUnreachable
from server.engines.base import NoEngine as NoEngine
from server.engines.local import LocalEngine as LocalEngine
from server.engines.remote import RemoteEngine as RemoteEngine
from server.settings import SERVERS, Settings
from text.modules import PluginError, load_plugin

ENGINES = "anaphora.engines"
"""The entry points of other packages' engines: callables that take the Settings and return an Engine, not started."""

_NAMED = re.compile(r"([a-z][a-z0-9_-]*):")
_OURS = ("hf", *SERVERS)


def open_engine(settings: Settings) -> Engine:
    """The engine of these settings, not yet started: use it in `with`, or call `start` and `stop`.

    Raises EngineError where the settings name another package's engine that is not there.
    """
    model = settings.llm.model
    if model.casefold() == "none":
        return NoEngine()
    if settings.llm.remote:
        return RemoteEngine(settings)
    if name := plugin_name(model):
        try:
            engine: Engine = load_plugin(ENGINES, name, kind="engine", builtin=("none", "http", "https"))(settings)
        except PluginError as error:
            raise EngineError(str(error)) from error
        return engine
    return LocalEngine(settings)


def plugin_name(model: str) -> str:
    """The engine of another package that `llm.model` names before its colon; empty where it names none."""
    named = _NAMED.match(model)
    return named[1] if named and named[1] not in _OURS and not Path(model).exists() else ""
