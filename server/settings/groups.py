"""The tables of the settings."""

from __future__ import annotations

import ipaddress
import re
from functools import cache
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from server.plugins import SettingsGroup
from server.settings.profile import RetrievalProfile, packaged_profile, read_profile


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine, and can be reached from nowhere else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class HouseInstructions(SettingsGroup):
    """Form of a house's answers; it never changes what they may cite."""

    name: str = Field("", max_length=60)
    tone: str = Field("", max_length=300)
    refusal: str = Field("", max_length=500)
    never: tuple[Annotated[str, Field(pattern=r"\S", max_length=60)], ...] = Field((), max_length=50)

    def breaks(self, text: str) -> str:
        """Return the first word of `never` that occurs in a text; empty if none does."""
        match = _any_of(self.never).search(text) if self.never else None
        return match[0] if match else ""


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    # Scripts without spaces have no edges of words.
    forms = (r"(?<!\w)%s(?!\w)" if word.isascii() else "%s" for word in words)
    escaped = (re.escape(word.strip()) for word in words)
    return re.compile("|".join(form % word for form, word in zip(forms, escaped, strict=True)), re.IGNORECASE)


class AnswerSettings(SettingsGroup):
    """Configure how a turn gets from passages to an answer."""

    house: dict[str, HouseInstructions] = Field(
        {},
        description="What the house wants of answers, by the collection's name: the `name` that the model goes by, its "
        "`tone` (300 characters), what is added to a `refusal` (Markdown, 500 characters), and words that it `never` "
        'uses, such as `{docs = {name = "Ada", tone = "Brief and kind.", refusal = "Ask [us](https://example.org).", '
        'never = ["synergy"]}}`. Rules of grounding stand above it: citations are checked and refusals stay. Quotes '
        "stand in place of a model's text that uses such a word.",
    )

    split_questions: bool = Field(
        True,
        description="Answer compound and comparing questions part by part, unless one section covers all parts.",
    )


SERVERS = {"ollama": "http://127.0.0.1:11434/v1", "vllm": "http://127.0.0.1:8000/v1"}
"""Model servers that `llm.model` may name instead of their address, and where they listen by default."""

PARALLEL = 2
"""Requests that the local engine answers at once."""

ServedBy: TypeAlias = Literal["", "vllm", "llamacpp"]
"""The program behind a chat model, where that is known: some understand more than OpenAI's protocol."""


class LLMSettings(SettingsGroup):
    """The language model that writes the answer."""

    model: str = Field(
        "none",
        description="`none` (answers are quoted), a registered name, a GGUF file or `hf:OWNER/REPO/FILE.gguf` of the "
        "hub (runs here), `ollama:NAME` or `vllm` (servers of this machine), an OpenAI-compatible base URL (`URL#NAME` "
        "names a model there), or `ENGINE:…` of another package.",
    )
    choices: dict[str, str] = Field(
        default={},
        description="Models that people may choose for a conversation, beside `model`: the names they see, and what "
        "each stands for, written as `model` is. Empty: there is no choice.",
    )
    model_name: str = Field("", description="Model name at the URL; empty takes the first it lists.")
    api_key: SecretStr = Field(SecretStr(""), description="Key for the URL; empty where it needs none.")
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
    threads: int = Field(0, ge=0, description="Threads of the local engine; 0 takes every core.")
    timeout_seconds: float = Field(300.0, gt=0, description="Longest answer, with the wait for it, in seconds.")

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
        return SERVERS.get(self.server, "")

    @property
    def asked_name(self) -> str:
        """The model's name at `address`; empty takes the first that is listed there."""
        return self.model.partition(":" if self.server else "#")[2] or self.model_name

    def chosen(self, name: str) -> LLMSettings:
        """These settings for one of `choices`; the key goes to no other server than the one it was given for."""
        other = self.model_copy(update={"model": self.choices[name], "model_name": ""})
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
    def evidence_tokens(self) -> int:
        """Tokens of the passages that a model reads: what suits where it runs."""
        return 2400 if self.remote else 450


class RetrievalSettings(SettingsGroup):
    """How a turn searches."""

    evidence: int = Field(6, ge=1, le=50, description="Passages handed to the answerer at most.")
    rerank: Literal["auto", "always", "never"] = Field(
        "auto", description="Cross-encoder over the top: `auto` only with a stand-alone question."
    )
    reranker: str = Field(
        "",
        description="Run, registered name, hub id or folder of the cross-encoder; empty takes the promoted run, else "
        "the packaged one that reads conversations; `ms-marco-minilm-l12` is what that was trained from.",
    )
    profile: Annotated[RetrievalProfile, NoDecode, BeforeValidator(read_profile)] = Field(
        default_factory=packaged_profile,
        description="File with the numbers of the search: weights, depths, thresholds and time limits. `anaphora eval "
        "calibrate` writes one. `server/settings/profile.toml` holds the packaged values and says what each means.",
    )
