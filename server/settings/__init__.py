"""Every setting of Anaphora, as one frozen object built once and passed in.

Sources, strongest first: flags, environment (`ANAPHORA_LLM__MODEL=none`), `anaphora.toml` in the
working directory, `anaphora.toml` in the home folder, the defaults of the tables. The reference in
`docs/operate/configuration.md` is generated from their descriptions.
"""

from __future__ import annotations

import ipaddress
import os
import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from server.plugins import SettingsGroup
from server.settings.profile import RetrievalProfile, packaged_profile, read_profile
from text.languages import AUTO, ENGLISH, NAMES

if TYPE_CHECKING:
    from index.stores import StoreSpec


Group = TypeVar("Group", bound=SettingsGroup)


def default_home() -> Path:
    """The folder of collections, models and the database when nothing else is said."""
    return Path(os.environ.get("ANAPHORA_HOME") or user_data_path("anaphora"))


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine, and can be reached from nowhere else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


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
        description="Registered name, hub id or folder of the cross-encoder; empty takes the packaged one that reads "
        "conversations; `ms-marco-minilm-l12` is what that was trained from.",
    )
    profile: Annotated[RetrievalProfile, NoDecode, BeforeValidator(read_profile)] = Field(
        default_factory=packaged_profile,
        description="File with the numbers of the search: weights, depths, thresholds and time limits. `anaphora eval "
        "calibrate` writes one. `server/settings/profile.toml` holds the packaged values and says what each means.",
    )


class IndexSettings(SettingsGroup):
    """How documents become passages, vectors and word lists."""

    encoder: str = Field(
        "bge-small-en-v1.5",
        description="Registered name, sentence-transformers hub id, or folder of the embedding model: "
        "`bge-small-en-v1.5` reads English, `multilingual-e5-small` about a hundred languages.",
    )
    languages: tuple[Annotated[str, Field(pattern="^[a-z]{2,3}$")], ...] = Field(
        (),
        description="Languages that the embedding model understands, such as `en`: a refused question in another is "
        "told so. Empty: English for the registered ones that read it alone; of others nothing is said.",
    )
    language: str = Field(
        ENGLISH,
        description="Language by which words are stemmed and stop words left out, such as `de`; `auto` takes for each "
        "document the one that it is in. Chinese, Japanese, Korean and Thai are searched by pairs of characters under "
        "any of them. Index again after changing it, which embeds nothing anew; `docs/languages.md` has the figures.",
    )
    passage_tokens: int = Field(
        220, ge=32, le=8192, description="Longest passage, in the encoder's tokens; never above its window."
    )
    include: tuple[str, ...] = Field((), description="Only files matching one of these patterns (gitignore style).")
    exclude: tuple[str, ...] = Field((), description="Never files matching one of these patterns (gitignore style).")
    max_file_mb: int = Field(64, ge=1, description="A larger file is refused with a clear status, in MiB.")
    ocr_languages: str = Field(
        "eng",
        pattern=r"^([A-Za-z_]+(\+[A-Za-z_]+)*)?$",
        description="Languages in which the text of pages of a PDF that are pictures is recognised, as Tesseract names "
        "them, such as `eng+deu`; their data has to be installed. Where Tesseract is missing, the extra `ocr` reads "
        "languages in Latin script, Chinese and Japanese. Empty: nothing is recognised.",
    )
    store: str = Field(
        "exact",
        description="Where vectors are kept and searched: `exact` compares all of them, which up to about 60,000 "
        "passages is also the fastest; `quantised` compares their signs first, for a million; `chroma` asks a Chroma "
        "server, or starts one (extra `chroma`); `milvus` asks Milvus, for words as well (extra `milvus`); any other "
        "name is a store that another package brings. Index again after changing it. Measurements: "
        "`docs/lab/benchmarks.md` and `docs/lab/scale.md`.",
    )
    store_url: str = Field(
        "",
        description="Address of the server of `chroma` or `milvus`, such as `http://localhost:19530`; without it "
        "the files lie in the home folder. A Milvus server's token is read from the environment variable "
        "`MILVUS_TOKEN`.",
    )

    site_urls: dict[str, str] = Field(
        {},
        description="Where the pages of a folder are live, by the folder: citations lead there. `{page}` stands for a "
        "file's path without its ending, `index` and `README`, `{path}` for all of it; an address with neither gets "
        "`/{page}/`, as most generators have it. A folder such as `/srv/docs/{version}/{language}` gives metadata by "
        "its names, which may stand in the address. Sources have `link` for this.",
    )

    @field_validator("site_urls")
    @classmethod
    def _web_addresses(cls, sites: dict[str, str]) -> dict[str, str]:
        for folder, site in sites.items():
            if not site.startswith(("http://", "https://")):
                raise ValueError(f"the address of {folder} does not begin with https:// or http://: {site!r}")
        return sites

    @field_validator("language")
    @classmethod
    def _known_language(cls, value: str) -> str:
        if value != AUTO and value not in NAMES:
            raise ValueError(f"{value!r} is no language known here: use {AUTO}, {', '.join(NAMES)}")
        return value

    @model_validator(mode="after")
    def _one_store(self) -> Self:
        if self.store_url and self.store in ("exact", "quantised"):
            raise ValueError(f"store_url is for a store with a server, and store is {self.store}: take one of them out")
        return self

    @property
    def vectors(self) -> StoreSpec:
        """Which vector store, and where."""
        from index.stores import StoreSpec

        return StoreSpec(self.store, self.store_url)


class RewriterSettings(SettingsGroup):
    """Rewriting of follow-ups."""

    kind: Literal["auto", "none", "prompted"] = Field(
        "auto",
        description="`auto` takes a trained one (milliseconds), and asks a model at an address that writes fast for "
        "follow-ups in full; `none` leaves it to the query variants; `prompted` asks the LLM (seconds on a CPU).",
    )
    model: str = Field(
        "", description="Folder or run id for `auto`; empty takes the promoted run, else the packaged one."
    )
    model_name: str = Field(
        "",
        description="Model name at the URL of `llm.model` that rewrites, such as an adapter's; empty asks the one that "
        "answers.",
    )


class ServerSettings(SettingsGroup):
    """Where the server listens and what it refuses."""

    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs a key or signing in.")
    port: int = Field(7860, ge=0, le=65535, description="Port of the page and the API.")
    max_body_mb: int = Field(64, ge=1, description="Largest request body, in MiB.")
    max_question_chars: int = Field(4000, ge=1, description="Longest question, in characters.")
    concurrent_turns: int = Field(8, ge=1, description="Turns answered at once.")
    workers: bool = Field(
        False, description="Leave all jobs to processes of their own, `anaphora worker`; off, servers do them."
    )
    share_days: int = Field(
        0,
        ge=0,
        le=3650,
        description="Longest life of a link by which a conversation is read without a key, in days; "
        "0 allows no such links.",
    )
    questions: dict[str, tuple[Annotated[str, Field(pattern=r"\S", max_length=300)], ...]] = Field(
        {},
        description="Questions that the welcome page shows as they are, by the collection's name, such as "
        '`{docs = ["How do I add documents?"]}`. With fewer than four, headings that are questions follow.',
    )
    filters: dict[str, tuple[Annotated[str, Field(pattern=r"\S", max_length=100)], ...]] = Field(
        {},
        description="Metadata that people can narrow searches by, in page and widget, by the collection's name, as in "
        '`{docs = ["version", "product", "language"]}`: the keys of front matter.',
    )
    trusted_hosts: tuple[str, ...] = Field(
        (),
        description="Names under which people reach the server, such as `docs.example.org` or `*.example.org`; beside "
        "them only this machine's are answered, and a key or signing in is always needed. Empty answers to this "
        "machine's names where it listens on loopback, else to any.",
    )

    proxies: tuple[str, ...] = Field(
        (),
        description="Addresses and networks of proxies, such as `127.0.0.1` or `10.0.0.0/8`, whose X-Forwarded headers "
        "are believed; with one, a key or signing in is always needed.",
    )

    @field_validator("proxies")
    @classmethod
    def _networks(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            ipaddress.ip_network(address)
        return addresses

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
    """Stored traces of turns."""

    content: bool = Field(True, description="Record texts in traces; off keeps names, counts and seconds only.")
    days: int = Field(90, ge=0, description="Days a trace is kept, counted from its turn; 0 keeps all.")
    otlp_endpoint: str = Field("", description="OpenTelemetry collector (OTLP over HTTP); empty exports nothing.")


LimitedRole: TypeAlias = Literal["visitor", "reader", "agent", "operator", "local"]
Quota: TypeAlias = Annotated[int, Field(ge=0)] | dict[LimitedRole, Annotated[int, Field(ge=0)]]
"""One number for everybody with a key or a login, or one for each role; a role that is not named has no limit."""


class LimitsSettings(SettingsGroup):
    """Limits of one principal; 0 is no limit."""

    requests_per_minute: Quota = Field(0, description="Requests to the API and calls of the page, in a minute.")
    tokens_per_minute: Quota = Field(
        0, description="Tokens read and written by the model, in a minute; a turn is refused once they are spent."
    )
    concurrent_turns: Quota = Field(0, description="Turns and searches that run or wait at once.")
    stored_mb: Quota = Field(0, description="Files uploaded and documents pushed, all together, in MiB.")
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


class DatabaseSettings(SettingsGroup):
    """Where conversations, jobs, keys and what people think of answers are kept."""

    url: SecretStr = Field(
        SecretStr(""),
        description="A PostgreSQL database that several servers share: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE` "
        "(extra `postgres`); empty keeps a SQLite file, `anaphora.db`, in the home.",
    )

    @field_validator("url")
    @classmethod
    def _of_postgres(cls, url: SecretStr) -> SecretStr:
        if url.get_secret_value() and not url.get_secret_value().startswith(("postgresql://", "postgresql+psycopg://")):
            raise ValueError("it begins with postgresql://; without it, a SQLite file in the home is used")
        return url


class UnreadableSettingsFile(ValueError):
    """A settings file is not TOML, not UTF-8, or may not be read."""


class _SettingsFile(TomlConfigSettingsSource):
    def _read_file(self, file_path: Any) -> dict[str, Any]:
        try:
            return super()._read_file(file_path)
        except (OSError, ValueError) as error:
            raise UnreadableSettingsFile(
                f"The settings file {file_path} cannot be read as TOML in UTF-8: {error}. Correct it."
            ) from error


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
    trace: TraceSettings = TraceSettings()
    limits: LimitsSettings = LimitsSettings()
    database: DatabaseSettings = DatabaseSettings()
    plugins: dict[str, Any] = Field(
        default={},
        validate_default=True,
        description="Settings of plugins, one table each: see the page of the plugin.",
    )

    @field_validator("plugins")
    @classmethod
    def _plugins(cls, tables: dict[str, Any]) -> dict[str, Any]:
        from server.plugins import parse_settings

        return dict(parse_settings(tables))

    def of(self, kind: type[Group]) -> Group:
        """Return the settings of a plugin by their class; the defaults if the plugin is not installed."""
        return next((group for group in self.plugins.values() if isinstance(group, kind)), None) or kind()

    @property
    def database_at(self) -> Path | str:
        """The address for `Database`: a file of the home, or a URL."""
        return self.database.url.get_secret_value() or self.home / "anaphora.db"

    @property
    def needs_sign_in(self) -> bool:
        """Whether every request needs a key or a person who signed in, also while no key was made."""
        return bool(
            not self.server.on_loopback or self.server.trusted_hosts or self.server.proxies or self.signs_people_in
        )

    @property
    def signs_people_in(self) -> bool:
        """Whether a plugin lets people sign in without a key."""
        return any(group.signs_in for group in self.plugins.values())

    @cached_property
    def keeps_questions(self) -> bool:
        """Whether a plugin wants people's questions in the audit log."""
        return any(group.keeps_questions for group in self.plugins.values())

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
            _SettingsFile(settings_cls),
            _SettingsFile(settings_cls, home / "anaphora.toml"),
        )
