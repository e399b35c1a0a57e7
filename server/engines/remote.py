"""The `openai` engine: any OpenAI-compatible server at a URL, such as `vllm serve` or a hosted one."""

from __future__ import annotations

import hmac
import secrets
import ssl
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from server.engines.base import ATRACED, TRACED, Engine, EngineUnreachable, openai_chat_model, request_timeout
from server.settings import LLMSettings, ServedBy, Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

CONNECT_SECONDS = 10.0
_HEALTH_SECONDS = 2.0
_RETRIES = 2
"""Tries again when a connection fails or the server says 429 or 5xx, before anything was streamed."""


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes longer than all else of a client.
    return httpx.create_ssl_context()


STARTING = {"ollama": "ollama serve", "vllm": "vllm serve MODEL"}
"""How each of the servers that have a name is started."""


def demand_listed(llm: LLMSettings, listed: Sequence[str]) -> str:
    """The name under which a server lists `llm.asked_name`; Ollama's may lack their tag. Raises EngineUnreachable."""
    for name in (llm.asked_name, f"{llm.asked_name}:latest"):
        if name in listed:
            return name
    pull = f" `ollama pull {llm.asked_name}` fetches it." if llm.server == "ollama" else ""
    raise EngineUnreachable(
        f"The server at {llm.address} has no model {llm.asked_name!r}; it has: {', '.join(listed) or 'none'}.{pull}"
    )


class RemoteEngine(Engine):
    """A server at `llm.address`, answering as `llm.asked_name` or, where that is empty, as the first model it lists."""

    def __init__(self, settings: Settings) -> None:
        self._llm = settings.llm
        self.address = settings.llm.address
        self.model = settings.llm.asked_name
        self._lock = threading.Lock()
        self._served_by: ServedBy = ""
        self._salt = ""
        """Sent with every request to a vLLM; other servers may refuse it."""
        self._clients: tuple[httpx.Client, httpx.AsyncClient] | None = None
        self._chat_model: BaseChatModel | None = None
        self._windows: dict[str, int] = {}

    @property
    def name(self) -> str:
        model = self.model or "first model"
        return f"openai:{model}@{urlsplit(self.address).hostname or self.address}"

    @property
    def listed(self) -> list[str]:
        """The models that the server listed when it was asked for them."""
        return list(self._windows)

    def start(self) -> None:
        """Ask the server for its models. Raises EngineUnreachable.

        A base URL without `/v1` is understood too.
        """
        with self._lock:
            if self._clients is not None:
                return
            timeout = request_timeout(self._llm)
            client = httpx.Client(timeout=timeout, verify=_tls(), event_hooks=TRACED)
            try:
                self.address, listed = self._find(client)
                if not self.model and not listed:
                    raise EngineUnreachable(
                        f"The server at {self.address} lists no model: check that llm.model is the address of an "
                        "OpenAI-compatible server, or name a model with llm.model_name."
                    )
                if self._llm.server and self.model:
                    self.model = demand_listed(self._llm, listed)
            except EngineUnreachable:
                client.close()
                raise
            self.model = self.model or listed[0]
            self.window = self._windows.get(self.model, 0)
            # How many turns run at once is the service's decision: a pool of its own would let others starve.
            unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=50)
            self._clients = (
                client,
                httpx.AsyncClient(timeout=timeout, verify=_tls(), limits=unbounded, event_hooks=ATRACED),
            )
            self._chat_model = openai_chat_model(
                self._llm,
                self.address,
                self.model,
                self._clients,
                retries=_RETRIES,
                cache_salt=self._salt,
                served_by=self._served_by,
            )

    def stop(self) -> None:
        with self._lock:
            clients, self._clients, self._chat_model = self._clients, None, None
        if clients is not None:
            clients[0].close()

    async def aclose(self) -> None:
        if clients := self._clients:
            await clients[1].aclose()

    def healthy(self) -> bool:
        clients = self._clients
        if clients is None:
            return False
        try:
            answer = clients[0].get(f"{self.address}/models", headers=self._headers(), timeout=_HEALTH_SECONDS)
        except httpx.HTTPError:
            return False
        # A server that lists no models, but answers, may still chat.
        return answer.is_success or answer.status_code == httpx.codes.NOT_FOUND

    def chat_model(self) -> BaseChatModel:
        """A model that talks to the server. Raises EngineUnreachable before `start` and after `stop`."""
        if self._chat_model is None:
            raise EngineUnreachable(f"The connection to {self.address} is not started.")
        return self._chat_model

    def _find(self, client: httpx.Client) -> tuple[str, list[str]]:
        """The base URL that answers, and the models listed there."""
        for url in dict.fromkeys((self.address, f"{self.address.removesuffix('/v1')}/v1")):
            if (names := self._list(client, url)) is not None:
                return url, names
        return self.address, []

    def _list(self, client: httpx.Client, base_url: str) -> list[str] | None:
        """Ids of the models at `base_url`, None where there is no such list. Raises EngineUnreachable."""
        try:
            answer = client.get(f"{base_url}/models", headers=self._headers(), timeout=CONNECT_SECONDS)
            if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED):
                return None
            if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise EngineUnreachable(f"The server at {base_url} refuses the key; set llm.api_key to one it knows.")
            answer.raise_for_status()
            listed = answer.json()["data"]
            owners = {model.get("owned_by") for model in listed}
            self._served_by = "vllm" if "vllm" in owners else "llamacpp" if "llamacpp" in owners else ""
            if not self._salt and self._served_by == "vllm":
                self._salt = _salt(self._llm.api_key.get_secret_value())
            self._windows = {str(model["id"]): int(model.get("max_model_len") or 0) for model in listed}
            return self.listed
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise EngineUnreachable(
                f"The language model at {base_url} does not answer ({reason}). "
                f"{self._remedy()}, or use `none` to have sentences quoted without a model."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _remedy(self) -> str:
        if server := self._llm.server:
            return f"Start it with `{STARTING[server]}`, or set llm.model to the URL where it runs"
        return "Check that it runs, and llm.model"

    def _headers(self) -> dict[str, str]:
        key = self._llm.api_key.get_secret_value()
        return {"Authorization": f"Bearer {key}"} if key else {}


def _salt(api_key: str) -> str:
    """Return the secret that salts are made from: servers with one key share what vLLM has read."""
    return hmac.digest(api_key.encode(), b"cache salt", "sha256").hex() if api_key else secrets.token_hex(16)
