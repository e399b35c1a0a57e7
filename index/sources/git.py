"""A branch of a Git repository, fetched over http(s) by the `git` command without a working tree.

Nothing of a repository is run, and it says nothing about how git works: no shell, no hooks, no configuration of this
machine, no submodules, no links, no other transports (`file://`, `ext::`, ssh), no redirects. The host's addresses are
checked beforehand and git is held to them. Only the newest commit is kept, and a later one brings what it adds.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from index.errors import SourceError
from index.sources.guard import Guard
from index.sources.protocol import Item, Known, Pause, same, too_large, worth_keeping
from index.sources.source import Source
from text.unsafe import showable_line, without_credentials

_HEAD = "refs/anaphora/head"
_SECONDS = 900.0
_POLL_SECONDS = 0.05
_SETTINGS = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "60",
    "credential.helper": "",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "fetch.recurseSubmodules": "false",
    "gc.autoDetach": "false",
    "maintenance.autoDetach": "false",
}
_LINKS = {
    "github.com": "{place}/blob/{branch}/{{path}}",
    "gitlab.com": "{place}/-/blob/{branch}/{{path}}",
    "codeberg.org": "{place}/src/branch/{branch}/{{path}}",
}


class GitConnector:
    """Names the files of the branch's newest commit; a version is the blob's id."""

    lists_all = True

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        self._source = source
        self._repository = cache / "repository.git"
        self._guard = guard
        self._max_bytes = max_bytes
        self._template = self._link()

    def items(self, known: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`."""
        self._fetch(pause)
        with _started(self._command("cat-file", "--batch"), self._environment()) as reader:
            for key, blob, size in self._listed():
                pause(0)
                if problem := too_large(size, self._max_bytes):
                    yield Item(key, problem=problem)
                    continue
                content = None if same(known.get(key), blob) else _blob(reader, blob)
                yield Item(key, blob, content, self._source.address(key, self._template))

    def close(self) -> None:
        """Nothing is open."""

    def _link(self) -> str:
        parts = urlsplit(self._source.location)
        place = self._source.location.rstrip("/").removesuffix(".git")
        return _LINKS.get(parts.hostname or "", "").format(place=place, branch=self._source.branch or "HEAD")

    def _fetch(self, pause: Pause) -> None:
        if not (self._repository / "HEAD").is_file():
            self._repository.mkdir(parents=True, exist_ok=True)
            self._run(pause, "init", "--quiet", "--bare", "--template=")
        branch = f"refs/heads/{self._source.branch}" if self._source.branch else "HEAD"
        self._run(
            pause,
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--", self._source.location, f"+{branch}:{_HEAD}",
        )  # fmt: skip

    def _listed(self) -> Iterator[tuple[str, str, int]]:
        """Path, blob and size of every ordinary file that is worth keeping."""
        below = ["--", self._source.path] if self._source.path else []
        listing = self._run(lambda _: None, "ls-tree", "-r", "-z", "-l", "--full-tree", _HEAD, *below)
        for line in listing.split(b"\0"):
            about, _, path = line.partition(b"\t")
            mode, _, blob, size = (*about.split(), b"", b"", b"", b"")[:4]
            key = path.decode("utf-8", "replace")
            if mode in (b"100644", b"100755") and worth_keeping(key, int(size)):
                yield key, blob.decode(), int(size)

    def _command(self, *arguments: str) -> list[str]:
        return ["git", f"--git-dir={self._repository}", "--literal-pathspecs", *arguments]

    def _run(self, pause: Pause, *arguments: str) -> bytes:
        """What a command says. Raises SourceError, and what `pause` raises once it is killed."""
        with _started(self._command(*arguments), self._environment()) as process:
            until = time.monotonic() + _SECONDS
            while True:
                try:
                    said, complaint = process.communicate(timeout=_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    pause(0)
                    if time.monotonic() > until:
                        raise SourceError(f"git {arguments[0]} takes more than {_SECONDS:g} seconds") from None
        if process.returncode:
            words = showable_line(without_credentials(complaint.decode("utf-8", "replace")))[:500]
            raise SourceError(f"git {arguments[0]} failed for {self._source.location}: {words}")
        return bytes(said)

    def _environment(self) -> dict[str, str]:
        """Settings and credentials, where no list of processes shows them, and nothing of ours."""
        parts = urlsplit(self._source.location)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = ",".join(f"[{one}]" if ":" in one else one for one in self._guard.addresses(host, port))
        settings = {**_SETTINGS, "http.curloptResolve": f"{host}:{port}:{addresses}"}
        if token := self._source.secret("TOKEN"):
            user = self._source.secret("USER") or "x-access-token"
            basic = base64.b64encode(f"{user}:{token}".encode()).decode()
            settings[f"http.{parts.scheme}://{parts.netloc}/.extraHeader"] = f"Authorization: Basic {basic}"
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._repository),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (name, value) in enumerate(settings.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return environment


class _started:  # noqa: N801  # used as a function
    """A git process that is gone at the end of the block."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise SourceError(f"git cannot be started ({error}): install it") from error

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def _blob(reader: subprocess.Popen[bytes], blob: str) -> bytes:
    wanted, answers = reader.stdin, reader.stdout
    assert wanted is not None
    assert answers is not None
    wanted.write(f"{blob}\n".encode())
    wanted.flush()
    header = answers.readline().split()
    if len(header) != 3 or not re.fullmatch(rb"\d+", header[2]):
        raise SourceError(f"git has no {blob}: delete the source and add it again")
    return _exactly(answers, int(header[2]) + 1)[:-1]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise SourceError("git ended before the file did")
    return content
