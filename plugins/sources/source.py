"""A source as an operator describes it, and the contract of the connector that reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from index.errors import IndexingError
from index.loaders.addresses import page_address
from index.loaders.files import suffixes
from server.guarded_http import AddressGuard
from server.plugins import SettingsGroup
from text.files import NAME_CHARS, NAME_PATTERN
from text.sanitize import is_showable

SourceKind: TypeAlias = Literal[
    "folder", "git", "web", "s3", "push", "github", "gitlab", "openapi", "confluence", "discourse"
]
Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_CHARS)]
Pause: TypeAlias = Callable[[float], None]
"""Waits so many seconds, 0 too; raises IndexingCancelled if the work should stop."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
KINDS: Mapping[SourceKind, tuple[str, frozenset[str]]] = {
    "folder": ("folder:FolderConnector", frozenset({"link", "watch"})),
    "git": ("git:GitConnector", frozenset({"link", "branch", "path"})),
    "web": ("web:WebConnector", frozenset({"sitemap", "prefix", "depth", "pages", "delay"})),
    "s3": ("s3:BucketConnector", frozenset({"link", "endpoint", "region"})),
    "push": ("", frozenset()),
    "github": ("threads:GitHubConnector", frozenset({"threads", "labels", "pages", "endpoint"})),
    "gitlab": ("threads:GitLabConnector", frozenset({"labels", "pages", "endpoint"})),
    "openapi": ("openapi:OpenApiConnector", frozenset({"link"})),
    "confluence": ("confluence:ConfluenceConnector", frozenset({"pages"})),
    "discourse": ("threads:DiscourseConnector", frozenset({"pages"})),
}
"""The module and class that read each kind, loaded for it alone, and its options."""
_BRANCH = re.compile(r"[A-Za-z0-9_][\w./+-]*")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
# A smaller file comes along though it is no document: documents quote code that lies beside them.
_SMALL_BYTES = 32 * 1024


class SourceError(IndexingError):
    """A source cannot be read now, or its description is damaged."""


class SourcesSettings(SettingsGroup):
    """Configure which hosts sources may reach."""

    private_hosts: tuple[str, ...] = Field(
        (), description="Hosts that sources may be read from although their addresses are private: `wiki.example.lan`."
    )


class Source(BaseModel):
    """A place whose documents a collection follows. Options that its kind does not have are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="What the source is called; its documents' ids begin with it.")
    collection: Name = Field(description="The collection that holds its documents.")
    kind: SourceKind
    location: str = Field(
        "",
        max_length=2000,
        description="A folder of the server's machine, the address of a Git repository or of a web page, "
        "`s3://BUCKET/PREFIX`, or nothing for `push`.",
    )
    every: str = Field("", pattern=r"^([1-9][0-9]{0,3}[mhd])?$", description="How often: `30m`, `6h`, `1d`; or never.")
    link: str = Field(
        "", max_length=2000, description="Where people open a document: an address with `{path}` or `{page}`."
    )
    watch: bool = Field(False, description="Follow a folder's changes as they happen.")
    branch: str = Field("", max_length=250, description="Of a Git repository; empty: its default branch.")
    path: str = Field("", max_length=1000, description="Only files of a Git repository below this folder.")
    sitemap: str = Field("", max_length=2000, description="Address of a sitemap; empty: what robots.txt names.")
    prefix: str = Field("", max_length=2000, description="Only pages whose address begins so; empty: beside the start.")
    depth: int = Field(5, ge=0, le=100, description="So many links from the first page.")
    pages: int = Field(1000, ge=1, le=100_000, description="So many pages, threads or topics at most.")
    delay: float = Field(1.0, ge=0, le=60, description="Seconds between two requests to a web site.")
    endpoint: str = Field("", max_length=2000, description="Address of an S3-compatible server, or of an API.")
    threads: Literal["issues", "discussions"] = Field("issues", description="Of GitHub: what is read.")
    labels: str = Field("", max_length=500, description="Only issues with these labels, by commas.")
    region: str = Field("us-east-1", pattern=r"^[a-z0-9-]{1,40}$")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        options = self.model_fields_set - {"name", "collection", "kind", "location", "every"}
        if wrong := sorted(option for option in options - KINDS[self.kind][1] if getattr(self, option)):
            raise ValueError(f"a source of kind {self.kind} has no {', '.join(wrong)}")
        if self.kind == "push" and (self.location or self.every):
            raise ValueError("documents are pushed to it: it has no location and no schedule")
        if self.kind == "folder" and not Path(self.location).is_absolute():
            raise ValueError("give the folder's full path")
        if self.kind == "s3" and not _BUCKET.fullmatch(self.location):
            raise ValueError("write a bucket as s3://BUCKET or s3://BUCKET/PREFIX")
        if self.kind in ("github", "gitlab") and urlsplit(self.location).path.strip("/").count("/") < 1:
            raise ValueError("name the project: https://github.com/OWNER/NAME")
        if self.kind == "confluence" and not re.search("/(?:spaces|display)/[^/]+", self.location):
            raise ValueError("name the space: https://NAME.atlassian.net/wiki/spaces/KEY")
        if self.branch and (not _BRANCH.fullmatch(self.branch) or ".." in self.branch):
            raise ValueError("this cannot be a branch")
        if self.path.startswith(("/", "-", ":")) or ".." in self.path.split("/"):
            raise ValueError("path is a folder of the repository, such as docs/en")
        web = [self.location] if self.kind not in ("folder", "s3", "push") else []
        for address in (*web, *filter(None, (self.link, self.sitemap, self.prefix, self.endpoint))):
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname or not is_showable(address):
                raise ValueError("it is no address that begins with https:// or http://")
            if parts.port == 0:  # reading it refuses what is no port
                raise ValueError("it names no port that there is")
            if "@" in parts.netloc:
                raise ValueError("leave user and password out of the address: the page on sources says where they go")
        return self

    @property
    def seconds(self) -> int:
        """Seconds between two runs; 0 for no schedule."""
        return int(self.every[:-1]) * _SECONDS[self.every[-1]] if self.every else 0

    def address(self, path: str, template: str = "") -> str:
        """Return where a person opens the file of this path; empty if nobody said."""
        site = self.link or template
        return page_address(site, path) if site else ""

    def secret(self, what: str) -> str:
        """Return a credential of this source, from the environment alone: nothing of it is ever written."""
        return os.environ.get(f"ANAPHORA_SOURCE_{re.sub(r'[^A-Z0-9]', '_', self.name.upper())}_{what}", "")


@dataclass(frozen=True, slots=True)
class Item:
    """Report of a source about one of its documents.

    `key` names it there and stays when it changes. `version` is the connector's own mark of what it saw; `content` is
    None if that version is mirrored already. `url` is where a person opens it, or empty; `suffix` the ending of its
    file if the key has another. `gone`: it was seen to be deleted; with a `problem` it stays as it was.
    """

    key: str
    version: str = ""
    content: bytes | None = None
    url: str = ""
    title: str = ""
    suffix: str = ""
    problem: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A mirrored document: the version that was seen, and the file that holds it."""

    version: str
    path: Path


class Connector:
    """Base of what reads one source; used by one thread at a time. `cache` is a folder of its own."""

    lists_all = True
    """What a complete run of `items` does not name is deleted."""

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        self.source = source
        self.cache = cache
        self.guard = guard
        self.max_bytes = max_bytes

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """List the present documents, each key once; `previous` holds the mirrored ones, by key.

        `pause` is called before every request or file, and what it raises is passed on. Raises SourceError if the
        source cannot be read (on): what was not named until then stays.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""


def is_wanted(name: str, size: int) -> bool:
    """Return whether a file of a source is a document, or something that documents show or quote."""
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") or part in ("node_modules", "__pycache__") for part in path.parts)
    return not hidden and (path.suffix.lower() in suffixes() | _PICTURES or size <= _SMALL_BYTES)


def size_problem(size: int, most: int) -> str:
    """Return the problem of a document of so many bytes; empty if it may have them."""
    return f"it has {size >> 20} MiB, and {most >> 20} are allowed (index.max_file_mb)" if size > most else ""


def kind_of(location: str) -> SourceKind:
    if location.startswith("s3://"):
        return "s3"
    if not location.startswith(("http://", "https://")):
        return "folder"
    parts = urlsplit(location)
    hosted = parts.hostname in ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
    return "git" if parts.path.endswith(".git") or (hosted and parts.path.count("/") == 2) else "web"


class Guard(AddressGuard):
    error = SourceError
    setting = "plugins.sources.private_hosts"
