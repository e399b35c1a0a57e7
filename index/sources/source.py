"""A source as an operator describes it, and the connector that reads it. No connector is imported before it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from index.errors import SourceError
from index.sources.protocol import Connector
from text.modules import need_extra
from text.names import NAME_CHARS, NAME_PATTERN
from text.sanitize import is_showable

SourceKind: TypeAlias = Literal["folder", "git", "web", "s3", "push"]
Name: TypeAlias = Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_CHARS)]

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_OPTIONS: dict[SourceKind, frozenset[str]] = {
    "folder": frozenset({"link", "watch"}),
    "git": frozenset({"link", "branch", "path"}),
    "web": frozenset({"sitemap", "prefix", "depth", "pages", "delay"}),
    "s3": frozenset({"link", "endpoint", "region"}),
    "push": frozenset(),
}
_BRANCH = re.compile(r"[A-Za-z0-9_][\w./+-]*")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


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
    link: str = Field("", max_length=2000, description="Where people open a document: an address with `{path}`.")
    watch: bool = Field(False, description="Follow a folder's changes as they happen.")
    branch: str = Field("", max_length=250, description="Of a Git repository; empty: its default branch.")
    path: str = Field("", max_length=1000, description="Only files of a Git repository below this folder.")
    sitemap: str = Field("", max_length=2000, description="Address of a sitemap; empty: what robots.txt names.")
    prefix: str = Field("", max_length=2000, description="Only pages whose address begins so; empty: beside the start.")
    depth: int = Field(5, ge=0, le=100, description="So many links from the first page.")
    pages: int = Field(1000, ge=1, le=100_000, description="So many pages are asked for in one run.")
    delay: float = Field(1.0, ge=0, le=60, description="Seconds between two requests to a web site.")
    endpoint: str = Field("", max_length=2000, description="Address of an S3-compatible server; empty: Amazon's.")
    region: str = Field("us-east-1", pattern=r"^[a-z0-9-]{1,40}$")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        options = self.model_fields_set - {"name", "collection", "kind", "location", "every"}
        if wrong := sorted(option for option in options - _OPTIONS[self.kind] if getattr(self, option)):
            raise ValueError(f"a source of kind {self.kind} has no {', '.join(wrong)}")
        if self.kind == "push" and (self.location or self.every):
            raise ValueError("documents are pushed to it: it has no location and no schedule")
        if self.kind == "folder" and not Path(self.location).is_absolute():
            raise ValueError("give the folder's full path")
        if self.kind == "s3" and not _BUCKET.fullmatch(self.location):
            raise ValueError("write a bucket as s3://BUCKET or s3://BUCKET/PREFIX")
        if self.branch and (not _BRANCH.fullmatch(self.branch) or ".." in self.branch):
            raise ValueError("this cannot be a branch")
        if self.path.startswith(("/", "-", ":")) or ".." in self.path.split("/"):
            raise ValueError("path is a folder of the repository, such as docs/en")
        web = [self.location] if self.kind in ("git", "web") else []
        for address in (*web, *filter(None, (self.link, self.sitemap, self.prefix, self.endpoint))):
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname or not is_showable(address):
                raise ValueError("it is no address that begins with https:// or http://")
            if "@" in parts.netloc:
                raise ValueError(
                    "leave user and password out of the address: docs/operate/sources.md says where they go"
                )
        return self

    @property
    def seconds(self) -> int:
        """How often it is looked at; 0 for never."""
        return int(self.every[:-1]) * _SECONDS[self.every[-1]] if self.every else 0

    def address(self, path: str, template: str = "") -> str:
        """Where a person opens the file of this path; empty where nobody said."""
        from urllib.parse import quote

        return (self.link or template).replace("{path}", quote(path, errors="replace"))

    def secret(self, what: str) -> str:
        """A credential of this source, from the environment alone: nothing of it is ever written."""
        return os.environ.get(f"ANAPHORA_SOURCE_{re.sub(r'[^A-Z0-9]', '_', self.name.upper())}_{what}", "")


def guess(location: str) -> SourceKind:
    """The kind of a source, by where it lies."""
    if location.startswith("s3://"):
        return "s3"
    if not location.startswith(("http://", "https://")):
        return "folder"
    parts = urlsplit(location)
    hosted = parts.hostname in ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
    return "git" if parts.path.endswith(".git") or (hosted and parts.path.count("/") == 2) else "web"


def open_connector(source: Source, cache: Path, *, private_hosts: Collection[str], max_bytes: int) -> Connector:
    """Return the connector for a source. `cache` is a folder of its own; only `private_hosts` may have private
    addresses.

    Raises SourceError, for a source that documents are pushed to as well.
    """
    from index.sources.ssrf_guard import Guard

    if source.kind == "push":
        raise SourceError(f"{source.name} is not read from anywhere: documents are pushed to it")
    if source.kind in ("web", "s3"):
        need_extra("sources", f"A source of kind {source.kind}", "protego", "httpx_auth", error=SourceError)
    guard = Guard(frozenset(name.lower() for name in private_hosts))
    connector: Connector = import_module(f"index.sources.{source.kind}").connect(source, cache, guard, max_bytes)
    return connector
