"""Every setting of Anaphora, as one frozen object built once and passed in.

Sources, strongest first: flags, environment (`ANAPHORA_LLM__MODEL=none`), `anaphora.toml` in the
working directory, `anaphora.toml` in the home folder, the defaults below. The reference in
`docs/configuration.md` is generated from the descriptions; those of `retrieval` and `answer` have modules of their own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from server.access.settings import OidcSettings, ProxySettings, is_loopback
from server.answer_settings import AnswerSettings as AnswerSettings
from server.answer_settings import RecipeName as RecipeName
from server.answer_settings import checked_recipe as checked_recipe
from server.retrieval_settings import LegsSettings as LegsSettings
from server.retrieval_settings import LegWeights as LegWeights
from server.retrieval_settings import RetrievalSettings as RetrievalSettings
from server.retrieval_settings import SettingsGroup

if TYPE_CHECKING:
    from index.stores import StoreSpec


def default_home() -> Path:
    """The folder of collections, models and the database when nothing else is said."""
    return Path(os.environ.get("ANAPHORA_HOME") or user_data_path("anaphora"))


SERVERS = ("ollama", "vllm")
"""Model servers that `llm.model` may name instead of their address."""

_ORIGIN = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


class PdfSettings(SettingsGroup):
    """How PDFs are read."""

    layout: Literal["auto", "off"] = Field(
        "auto",
        description="Whether columns, tables, captions and headings are told apart; `off` takes the text of each page "
        "as it is drawn, without places to show. PDFs are read again after changing it.",
    )
    ocr_seconds: float = Field(
        300.0,
        ge=0,
        description="What recognising the text of pages that are pictures may take for one file, in seconds, where "
        "Tesseract is installed; pages that are left are named. `0` recognises nothing.",
    )
    ocr_languages: str = Field(
        "eng",
        pattern=r"^[A-Za-z_]+(\+[A-Za-z_]+)*$",
        description="Languages in which text is recognised, as Tesseract names them, such as `eng+deu`; their data has "
        "to be installed.",
    )


class IndexSettings(SettingsGroup):
    """How documents become passages, vectors and word lists."""

    encoder: str = Field(
        "all-minilm-l6-v2",
        description="Registered name, sentence-transformers hub id, or folder of the embedding model.",
    )
    languages: tuple[Annotated[str, Field(pattern="^[a-z]{2,3}$")], ...] = Field(
        (),
        description="Languages that the embedding model understands, such as `en`: a refused question in another is "
        "told so. Empty: English for the one that comes with Anaphora; of others nothing is said.",
    )
    passage_tokens: int = Field(
        220, ge=32, le=8192, description="Longest passage, in the encoder's tokens; never above its window."
    )
    include: tuple[str, ...] = Field((), description="Only files matching one of these patterns (gitignore style).")
    exclude: tuple[str, ...] = Field((), description="Never files matching one of these patterns (gitignore style).")
    max_file_mb: int = Field(64, ge=1, description="A larger file is refused with a clear status, in MiB.")
    parse_seconds: float = Field(60.0, gt=0, description="A file that takes longer to read is given up, in seconds.")
    parse_memory_mb: int = Field(
        2048, ge=256, description="A file that takes more memory to read is given up, in MiB (Linux)."
    )
    pdf: PdfSettings = PdfSettings()
    store: str = Field(
        "exact",
        description="Where vectors are kept and searched: `exact` compares all of them, which up to about 60,000 "
        "passages is also the fastest; `chroma` asks Chroma (extra `chroma`); `milvus` asks Milvus, for words as well "
        "(extra `milvus`); any other name is a store that another package brings. Index again after changing it. The "
        "measurements are in `docs/benchmarks.md`.",
    )
    store_url: str = Field(
        "",
        description="Address of the server of `chroma` or `milvus`, such as `http://localhost:19530`; without it their "
        "files lie in the home folder. A Milvus server's token is read from the environment variable `MILVUS_TOKEN`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_kept(cls, values: Any) -> Any:
        """Older settings named a BM25 engine, of which one is left, and the address of a Chroma server alone."""
        if not isinstance(values, dict):
            return values
        kept = {key: value for key, value in values.items() if key != "lexical"}
        older = kept.pop("chroma_url", "")
        return {"store": "chroma", "store_url": older, **kept} if older else kept

    @model_validator(mode="after")
    def _one_store(self) -> Self:
        if self.store_url and self.store == "exact":
            raise ValueError("store_url is for a store with a server, and store is exact: take one of them out")
        return self

    @property
    def vectors(self) -> StoreSpec:
        """Which vector store, and where."""
        from index.stores import StoreSpec

        return StoreSpec(self.store, self.store_url)


class RewriterSettings(SettingsGroup):
    """What makes a follow-up stand alone."""

    kind: Literal["auto", "none", "prompted"] = Field(
        "auto",
        description="`auto` takes a trained one (milliseconds); `none` leaves it to the legs; `prompted` asks the LLM "
        "(seconds on a CPU).",
    )
    model: str = Field(
        "", description="Folder or run id for `auto`; empty takes the promoted run, else the packaged one."
    )
    remote_name: str = Field(
        "",
        description="Model name at the URL of `llm.model` that `prompted` asks, such as an adapter's; empty asks the "
        "one that answers.",
    )
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Belief from which a question counts as one that needs its history; empty takes "
        "the rewriter's own.",
    )
    alternatives: int = Field(
        0, ge=0, le=5, description="Further forms a rewriter that writes is asked for; each is one more leg."
    )
    timeout_seconds: float = Field(8.0, gt=0, description="After this the typed question is used, in seconds.")
    history_turns: int = Field(
        6, ge=0, description="Messages of history that a rewriter which writes sees, newest kept."
    )


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


class ServerSettings(SettingsGroup):
    """Where the server listens and what it refuses."""

    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs a key or signing in.")
    port: int = Field(7860, ge=0, le=65535, description="Port of the page and the API.")
    max_body_mb: int = Field(64, ge=1, description="Largest request body, in MiB.")
    max_question_chars: int = Field(4000, ge=1, description="Longest question, in characters.")
    max_history_turns: int = Field(50, ge=0, description="Longest history of a request, in messages.")
    concurrent_turns: int = Field(8, ge=1, description="Turns answered at once.")
    queue_length: int = Field(32, ge=0, description="Turns that may wait; one more is told 429 with Retry-After.")
    turn_seconds: float = Field(360.0, gt=0, description="Longest turn, waiting left out, in seconds.")
    connections: int = Field(500, ge=1, description="Connections at once; one more is told 503 with Retry-After.")
    header_seconds: float = Field(
        15.0,
        gt=0,
        description="Longest wait for a request's headers, in seconds; then 408, and the end.",
    )
    body_seconds: float = Field(
        30.0, gt=0, description="The same for its body, which has one more second for each 4 kB that have arrived."
    )
    write_seconds: float = Field(
        60.0, gt=0, description="A client that takes in nothing of its answer for so long is let go, in seconds."
    )
    widget_origins: tuple[str, ...] = Field(
        (),
        description="Web sites that may show the chat widget, as origins: `https://www.example.org`; empty: none.",
    )
    share_days: int = Field(
        0,
        ge=0,
        le=3650,
        description="Longest life of a link by which a conversation is read without a key, in days; "
        "0 allows no such links.",
    )
    trusted_hosts: tuple[str, ...] = Field(
        (),
        description="Names under which people reach the server, such as `docs.example.org` or `*.example.org`; beside "
        "them only this machine's are answered, and a key or signing in is always needed. Empty answers to this "
        "machine's names where it listens on loopback, else to any.",
    )

    @field_validator("widget_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin} is no origin: write it as https://www.example.org, without a path")
        return origins

    @field_validator("trusted_hosts")
    @classmethod
    def _host_names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host} is no host name: write it without scheme, port and path, or as *.example.org")
        return tuple(host.lower() for host in hosts)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host)


class TraceSettings(SettingsGroup):
    """What is kept of every turn."""

    content: bool = Field(True, description="Record texts in traces; off keeps names, counts and seconds only.")
    logprobs: bool = Field(
        False, description="Ask the model for the log probability of each token, for traces; some servers refuse that."
    )
    days: int = Field(90, ge=0, description="Days a trace is kept, counted from its turn; 0 keeps all.")
    otlp_endpoint: str = Field("", description="OpenTelemetry collector (OTLP over HTTP); empty exports nothing.")


LimitedRole: TypeAlias = Literal["reader", "agent", "operator", "local"]
Quota: TypeAlias = Annotated[int, Field(ge=0)] | dict[LimitedRole, Annotated[int, Field(ge=0)]]
"""One number for everybody with a key or a login, or one for each role; a role that is not named has no limit."""


class LimitsSettings(SettingsGroup):
    """What one principal may use; 0 is no limit."""

    requests_per_minute: Quota = Field(0, description="Requests to the API and calls of the page, in a minute.")
    tokens_per_minute: Quota = Field(
        0, description="Tokens read and written by the model, in a minute; a turn is refused once they are spent."
    )
    concurrent_turns: Quota = Field(0, description="Turns and searches that run or wait at once.")
    stored_mb: Quota = Field(0, description="Files uploaded, all together, in MiB.")
    jobs: Quota = Field(0, description="Jobs that are not finished.")
    store: str = Field(
        "memory",
        pattern=r"^(memory|rediss?://.+)$",
        description="Where requests and tokens are counted: `memory` of this process, or `redis://HOST:PORT` (extra "
        "`redis`) for several servers together.",
    )

    def of(self, role: LimitedRole) -> dict[str, int]:
        """Each limit of a role by its setting's name, without `store`.

        A number is not meant for `local`, which is whoever sits at the machine itself.
        """
        quotas: dict[str, Quota] = {name: getattr(self, name) for name in type(self).model_fields if name != "store"}
        return {
            name: quota.get(role, 0) if isinstance(quota, dict) else 0 if role == "local" else quota
            for name, quota in quotas.items()
        }


class AuditSettings(SettingsGroup):
    """What the audit log holds, and for how long."""

    content: bool = Field(False, description="Record questions too; off keeps who, what, when and from where.")
    days: int = Field(0, ge=0, description="Days a row is kept; 0 keeps all.")


class Settings(BaseSettings):
    """All settings; frozen, so that a running server means one thing by them."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ANAPHORA_", env_nested_delimiter="__", toml_file="anaphora.toml"
    )

    home: Path = Field(default_factory=default_home, description="Folder of collections, models and the database.")
    collection: str = Field("docs", description="The collection used when a request names none.")
    index: IndexSettings = IndexSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    answer: AnswerSettings = AnswerSettings()
    rewriter: RewriterSettings = RewriterSettings()
    llm: LLMSettings = LLMSettings()
    server: ServerSettings = ServerSettings()
    oidc: OidcSettings = OidcSettings()
    proxy: ProxySettings = ProxySettings()
    trace: TraceSettings = TraceSettings()
    limits: LimitsSettings = LimitsSettings()
    audit: AuditSettings = AuditSettings()

    @property
    def needs_sign_in(self) -> bool:
        """Whether every request needs a key or a person who signed in, also while no key was made."""
        return bool(
            not self.server.on_loopback or self.server.trusted_hosts or self.proxy.addresses or self.oidc.issuer
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = Path(init_settings().get("home") or default_home())
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls),
            TomlConfigSettingsSource(settings_cls, home / "anaphora.toml"),
        )
