"""A branch of a Git repository, fetched over http(s) by the `git` command without a working tree.

Nothing of a repository is run, and it says nothing about how git works: no shell, no hooks, no configuration of this
machine, no submodules, no links, no other transports (`file://`, `ext::`, ssh), no redirects. The host's addresses are
checked beforehand and git is held to them. Only the newest commit is kept, and a later one brings what it adds.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import httpx

from plugins.sources.source import Connector, Guard, Item, Known, Pause, Source, SourceError, is_wanted, size_problem
from text.sanitize import sanitize_line, without_credentials

_HEAD = "refs/anaphora/head"
_SECONDS = 900.0
_POLL_SECONDS = 0.05
_OUTPUT_BYTES = 32 << 20
"""What git may say: the names of some 300,000 files."""
_FREE_BYTES = 256 << 20
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_SETTINGS = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "60",
    "credential.helper": "",
    "core.hooksPath": os.devnull,
    "fetch.recurseSubmodules": "false",
    "gc.autoDetach": "false",
}
_LINKS = {
    "github.com": "{place}/blob/{branch}/{{path}}",
    "gitlab.com": "{place}/-/blob/{branch}/{{path}}",
    "codeberg.org": "{place}/src/branch/{branch}/{{path}}",
}


class GitConnector(Connector):
    """Names the files of the branch's newest commit; a version is the blob's id."""

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        super().__init__(source, cache, guard, max_bytes)
        self._repository = cache / "repository.git"
        self._address = urlsplit(_ascii(source.location))
        place = source.location.rstrip("/").removesuffix(".git")
        template = _LINKS.get(self._address.hostname or "", "")
        self._link = template.format(place=place, branch=source.branch or "HEAD")

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        if not (self._repository / "HEAD").is_file():
            self._repository.mkdir(parents=True, exist_ok=True)
            self._run(pause, "init", "--quiet", "--bare", "--template=")
        branch = f"refs/heads/{self.source.branch}" if self.source.branch else "HEAD"
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        self._run(pause, "fetch", *options, "--", self._address.geturl(), f"+{branch}:{_HEAD}")
        below = ["--", self.source.path] if self.source.path else []
        listing = self._run(pause, "ls-tree", "-r", "-z", "-l", "--full-tree", _HEAD, *below)
        with self._started("cat-file", "--batch") as reader:
            for line in listing.split(b"\0")[:-1]:
                about, _, path = line.partition(b"\t")
                mode, _, blob, size = about.decode().split()
                key = path.decode("utf-8", "backslashreplace")
                if not mode.startswith("100") or not is_wanted(key, int(size)):
                    continue
                pause(0)
                if problem := size_problem(int(size), self.max_bytes):
                    yield Item(key, problem=problem)
                    continue
                unchanged = key in previous and previous[key].version == blob
                content = None if unchanged else _blob(reader, blob, int(size))
                yield Item(key, blob, content, self.source.address(key, self._link))

    def _run(self, pause: Pause, *arguments: str) -> bytes:
        """Run git and return its output. Raises SourceError, and what `pause` raises once it is killed."""
        until = time.monotonic() + _SECONDS
        # A few objects may stand for endless trees, and a server may chat without end.
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as complaint,
            self._started(*arguments, stdout=output, stderr=complaint) as process,
        ):
            running = True
            while running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                    running = False
                pause(0)
                if time.monotonic() > until:
                    raise SourceError(f"git {arguments[0]} takes more than {_SECONDS:g} seconds")
                if shutil.disk_usage(self._repository).free < _FREE_BYTES:
                    raise SourceError(
                        f"git {arguments[0]} is stopped: less than {_FREE_BYTES >> 20} MiB are left on the disk"
                    )
                if max(os.fstat(file.fileno()).st_size for file in (output, complaint)) > _OUTPUT_BYTES:
                    raise SourceError(f"git {arguments[0]} names more than {_OUTPUT_BYTES >> 20} MiB of files or words")
            output.seek(0)
            complaint.seek(0)
            if process.returncode:
                words = complaint.read().decode("utf-8", "replace")
                words = sanitize_line(without_credentials(words))[:500]
                raise SourceError(f"git {arguments[0]} failed for {self.source.location}: {words}")
            return output.read()

    @contextmanager
    def _started(self, *arguments: str, **files: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """A git process that is gone at the end of the block; pipes where `files` has none. Raises SourceError."""
        command = ["git", f"--git-dir={self._repository}", "--literal-pathspecs", *arguments]
        streams: dict[str, Any] = {**dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE), **files}
        try:
            process = subprocess.Popen(command, env=self._environment(), **streams)
        except OSError as error:
            raise SourceError(f"git cannot be started ({error}): install it") from error
        with process:
            try:
                yield process
            finally:
                process.kill()

    def _environment(self) -> dict[str, str]:
        """Settings and credentials, where no list of processes shows them, and nothing of ours."""
        parts = self._address
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = ",".join(
            f"[{address}]" if ":" in address else address for address in self.guard.addresses(host, port)
        )
        # An address of IP version 6 needs no looking up, and cannot stand before a colon.
        settings = _SETTINGS if ":" in host else {**_SETTINGS, "http.curloptResolve": f"{host}:{port}:{addresses}"}
        if token := self.source.secret("TOKEN"):
            user = self.source.secret("USER") or "x-access-token"
            basic = base64.b64encode(f"{user}:{token}".encode()).decode()
            settings = {
                **settings,
                f"http.{parts.scheme}://{parts.netloc}/.extraHeader": f"Authorization: Basic {basic}",
            }
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._repository),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (name, value) in enumerate(settings.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return environment


def _ascii(location: str) -> str:
    """Return an address whose host is spelt as it is asked for: git would look another spelling up by itself."""
    try:
        address = httpx.URL(location)
    except httpx.InvalidURL as error:
        raise SourceError(f"{location} is no address: {error}") from error
    host = address.raw_host.decode()
    if not _HOST.fullmatch(host):
        raise SourceError(f"{location} names a host of other signs than letters, digits, dots and dashes")
    return str(address)


def _blob(reader: subprocess.Popen[bytes], blob: str, size: int) -> bytes:
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(f"{blob}\n".encode())
    reader.stdin.flush()
    header, content = reader.stdout.readline(), reader.stdout.read(size + 1)[:-1]
    if header.split()[-1:] != [str(size).encode()] or len(content) != size:
        raise SourceError(f"git cannot read {blob}: remove the source and add it again")
    return content
