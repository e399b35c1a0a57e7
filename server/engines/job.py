"""Job of the worker process: one line of JSON on its standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class EngineJob:
    """The GGUF file, the socket's path, tokens of context per request, requests at once, threads."""

    model: str
    socket: str
    context_tokens: int
    parallel: int
    threads: int

    def to_json(self) -> str:
        """One line for the worker's standard input."""
        return json.dumps(asdict(self))
