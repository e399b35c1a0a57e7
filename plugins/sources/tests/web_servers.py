"""Servers on loopback that sources are read from: a Git server and an S3 server."""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.http_server import FakeHandler, ServedFake
from tests.web_site import answer, handler_of, serving


@contextmanager
def git_server(root: Path, token: str = "") -> Iterator[tuple[str, list[str]]]:
    """The repositories below `root` by git's own smart protocol; gives the address, and what was asked for."""
    program = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
    paths: list[str] = []

    def handle(request: FakeHandler) -> None:
        paths.append(request.path)
        if token and request.headers.get("Authorization", "") != f"Basic {token}":
            answer(request, 401, b"", {"WWW-Authenticate": 'Basic realm="git"'})
            return
        parts = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run([program], env=environment, input=body, capture_output=True, check=False)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        answer(request, int(headers.pop("Status", "200").split()[0]), rest, headers)

    with serving(handle) as port:
        yield f"http://127.0.0.1:{port}", paths


@dataclass
class FakeBucket(ServedFake):
    """`with FakeBucket() as bucket:` is an S3 server with one bucket, `docs`, whose requests must be signed.

    Lists come in pages of `page`; `fails_after` so many answers everything is refused.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    key: str = "reader"
    secret: str = "s3cret/with+signs"
    page: int = 2
    answers: int = 0
    fails_after: int = 10**9

    def handler(self) -> type[FakeHandler]:
        return handler_of(self._answer)

    def _answer(self, request: FakeHandler) -> None:
        self.answers += 1
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query))
        if self.answers > self.fails_after:
            answer(request, 503, b"<Error/>")
        elif request.headers.get("Authorization", "") != self._signed(request):
            answer(request, 403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
        elif parts.path == "/docs":
            answer(request, 200, self._listed(query).encode(), {"Content-Type": "application/xml"})
        elif (name := unquote(parts.path).removeprefix("/docs/")) in self.objects:
            answer(request, 200, self.objects[name])
        else:
            answer(request, 404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _listed(self, query: dict[str, str]) -> str:
        names = sorted(name for name in self.objects if name.startswith(query.get("prefix", "")))
        at = int(query.get("continuation-token", "0"))
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><ETag>&quot;{hashlib.md5(self.objects[name]).hexdigest()}&quot;</ETag>"
            f"<Size>{len(self.objects[name])}</Size></Contents>"
            for name in names[at : at + self.page]
        )
        more = at + self.page
        token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more < len(names) else ""
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        return f'<?xml version="1.0"?><ListBucketResult {space}>{rows}{token}</ListBucketResult>'

    def _signed(self, request: FakeHandler) -> str:
        """The Authorization header that AWS's Signature Version 4 asks for, by its description."""
        parts, moment = urlsplit(request.path), request.headers["x-amz-date"]
        date = moment[:8]
        header = request.headers.get("Authorization", "")
        names = header.partition("SignedHeaders=")[2].partition(",")[0]
        pairs = sorted((quote(k, "-_.~"), quote(v, "-_.~")) for k, v in parse_qsl(parts.query, keep_blank_values=True))
        canonical = "\n".join(
            (
                request.command,
                quote(unquote(parts.path), "/-_.~"),
                "&".join(f"{name}={value}" for name, value in pairs),
                *(f"{name}:{request.headers[name].strip()}" for name in names.split(";")),
                "",
                names,
                request.headers["x-amz-content-sha256"],
            )
        )
        scope = f"{date}/us-east-1/s3/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for part in (date, "us-east-1", "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        return f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
