"""Which model servers answer on this machine, at their usual addresses; no other machine is asked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from server.settings import LLMSettings
from server.settings.groups import is_loopback

if TYPE_CHECKING:
    import httpx

LOOK_SECONDS = 0.5
OTHERS = ("http://127.0.0.1:8080/v1", "http://127.0.0.1:1234/v1")
"""Where llama.cpp's server and LM Studio listen."""


@dataclass(frozen=True, slots=True)
class NearbyServer:
    """A server and the models it lists; `models` are written as `llm.model` would name them."""

    url: str
    models: tuple[str, ...]

    def __str__(self) -> str:
        if not self.models:
            return f"A model server runs at {self.url}, without a model yet; `ollama pull NAME` fetches one."
        return f"A model server runs at {self.url}; use it with MODEL={' or MODEL='.join(self.models[:5])}."


def nearby_servers(llm: LLMSettings) -> Iterator[NearbyServer]:
    """The servers that answer within half a second."""
    import httpx

    urls = [url.rstrip("/") for url in dict.fromkeys((llm.ollama_url, llm.vllm_url, *OTHERS))]
    urls = [url for url in urls if is_loopback(urlsplit(url).hostname or "")]
    # Nothing here is encrypted, and loading certificates would take longer than the answers.
    with httpx.Client(timeout=LOOK_SECONDS, trust_env=False, verify=False) as client, ThreadPoolExecutor(8) as pool:
        for server in pool.map(lambda url: _look(client, llm, url), urls):
            if server is not None:
                yield server


def _look(client: httpx.Client, llm: LLMSettings, url: str) -> NearbyServer | None:
    import httpx

    try:
        rows = client.get(f"{url}/models").raise_for_status().json()["data"] or []
        names = [(str(row["id"]), row.get("owned_by")) for row in rows]
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if any(owner == "anaphora" for _, owner in names):
        return None  # one of us
    if url == llm.ollama_url.rstrip("/"):
        return NearbyServer(url, tuple(f"ollama:{name}" for name, _ in names))
    if url == llm.vllm_url.rstrip("/") and any(owner == "vllm" for _, owner in names):
        return NearbyServer(url, ("vllm",))
    return NearbyServer(url, (url,)) if names else None
