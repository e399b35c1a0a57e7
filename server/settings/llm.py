"""What writes the answer: the settings of `llm`. Everybody takes them from `server.settings`."""

from __future__ import annotations

from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from server.settings.group import SettingsGroup

SERVERS = ("ollama", "vllm")
"""Model servers that `llm.model` may name instead of their address."""

ServedBy: TypeAlias = Literal["", "vllm", "llamacpp"]
"""The program behind a chat model, where that is known: some understand more than OpenAI's protocol."""


class LLMSettings(SettingsGroup):
    """What writes the answer."""

    model: str = Field(
        "qwen2.5-coder-1.5b-instruct",
        description="A registered name, a GGUF file or `hf:OWNER/REPO/FILE.gguf` of the hub (runs here), `ollama:NAME` "
        "or `vllm` (servers of this machine), an OpenAI-compatible base URL (`URL#NAME` names a model there), "
        "`none`, or `ENGINE:…` of another package.",
    )
    choices: dict[str, str] = Field(
        default={},
        description="Models that people may choose for a conversation, beside `model`: the names they see, and what "
        "each stands for, written as `model` is. Empty: there is no choice.",
    )
    ollama_url: str = Field("http://127.0.0.1:11434/v1", description="Where `ollama:NAME` is asked.")
    vllm_url: str = Field("http://127.0.0.1:8000/v1", description="Where `vllm` is asked.")
    remote_name: str = Field("", description="Model name at the URL; empty takes the first it lists.")
    api_key: SecretStr = Field(SecretStr(""), description="Key for the URL; empty where it needs none.")
    cache_salt: str = Field(
        "", description="What each group's own salt at a vLLM is made from; empty: at random, and for a vLLM only."
    )
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature of answers.")
    style: Literal["auto", "short", "full"] = Field(
        "auto",
        description="`short` answers in one to three sentences; `full` says all that is needed to act on it, with "
        "steps, tables and code. `auto` is full for a model with a context of 8,192 tokens or more that writes 20 a "
        "second or more; until its first answer was timed, one at an address is believed to.",
    )
    answer_tokens: int = Field(
        0, ge=0, description="Longest answer, in tokens; 0 takes 400 for a short one and 1,200 for a full one."
    )
    context_tokens: int = Field(4096, ge=512, description="Context window of one request, in tokens.")
    evidence_tokens: int = Field(
        0, ge=0, description="Tokens of the passages a model reads; 0 takes 450 for one that runs here, 2,400 at a URL."
    )
    parallel: int = Field(2, ge=1, description="Requests the local engine answers at once.")
    threads: int = Field(0, ge=0, description="Threads of the local engine; 0 takes every core.")
    first_token_seconds: float = Field(150.0, gt=0, description="Longest wait for the first token, in seconds.")
    total_seconds: float = Field(300.0, gt=0, description="Longest answer, in seconds.")

    @property
    def server(self) -> str:
        """The one of `SERVERS` that `model` names; empty where it names none."""
        name = self.model.partition(":")[0]
        return name if name in SERVERS else ""

    @property
    def address(self) -> str:
        """The base URL where the model is asked; empty where it runs here, or nowhere."""
        if self.model.startswith(("http://", "https://")):
            return self.model.partition("#")[0].rstrip("/")
        return {"ollama": self.ollama_url, "vllm": self.vllm_url}.get(self.server, "").rstrip("/")

    @property
    def asked_name(self) -> str:
        """The model's name at `address`; empty takes the first that is listed there."""
        return self.model.partition(":" if self.server else "#")[2] or self.remote_name

    def chosen(self, name: str) -> LLMSettings:
        """These settings for one of `choices`; the key goes to no other server than the one it was given for."""
        other = self.model_copy(update={"model": self.choices[name], "remote_name": ""})
        same = urlsplit(other.address).netloc == urlsplit(self.address).netloc
        return other if same else other.model_copy(update={"api_key": SecretStr("")})

    @property
    def remote(self) -> bool:
        """Whether the model is asked at an address."""
        return bool(self.address)

    def longest_answer(self, style: Literal["short", "full"]) -> int:
        """Tokens an answer of that style may have."""
        return self.answer_tokens or (1200 if style == "full" else 400)

    @property
    def shown_evidence_tokens(self) -> int:
        """Tokens of evidence a model reads: `evidence_tokens`, or what suits where it runs."""
        return self.evidence_tokens or (2400 if self.remote else 450)
