"""The other ends of a hand-off, on loopback, as their protocols have it: a mail server, GitHub's and Zendesk's API."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

from tests.http_server import FakeHandler, serving

TOKEN = "secret-token"


class Desk:
    """Keeps requests and mails; while `away` every request fails."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.mails: list[EmailMessage] = []
        self.away = False
        self.reply = b""


@contextmanager
def http_desk() -> Iterator[tuple[Desk, str]]:
    """GitHub's issues, Zendesk's tickets and a webhook, at one address."""
    desk = Desk()

    class Handler(FakeHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if desk.away:
                return self.answer(503, {"message": "Service unavailable"})
            desk.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            answers = {"/hook": self.hook, "/repos/us/docs/issues": self.issue, "/api/v2/tickets.json": self.ticket}
            return answers.get(self.path, lambda _: self.answer(404, {"message": "Not Found"}))(json.loads(body))

        def hook(self, _: dict[str, Any]) -> None:
            self.answer(200, desk.reply)

        def issue(self, fields: dict[str, Any]) -> None:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return self.answer(401, {"message": "Bad credentials", "status": "401"})
            if not fields.get("title"):
                return self.answer(422, {"message": "Validation Failed"})
            return self.answer(201, {"number": 7, "html_url": "https://code.example/us/docs/issues/7", "state": "open"})

        def ticket(self, fields: dict[str, Any]) -> None:
            user = base64.b64encode(f"agent@example.org/token:{TOKEN}".encode()).decode()
            if self.headers["Authorization"] != f"Basic {user}":
                return self.answer(401, {"error": "Couldn't authenticate you"})
            if not fields.get("ticket", {}).get("comment", {}).get("body"):
                return self.answer(422, {"error": "RecordInvalid"})
            return self.answer(201, {"ticket": {"id": 35436, **fields["ticket"]}, "audit": {"id": 1}})

    with serving(Handler) as port:
        yield desk, f"http://127.0.0.1:{port}"


class _Mail(socketserver.StreamRequestHandler):
    """A mail server of RFC 5321 without extensions."""

    def handle(self) -> None:
        desk = cast("Any", self.server).desk
        self.say("220 mail.example ESMTP")
        while line := self.rfile.readline():
            verb = line.split()[0].upper() if line.split() else b""
            if desk.away:
                return self.say("421 mail.example closing")
            if verb == b"EHLO":
                self.say("250 mail.example")
            elif verb == b"DATA":
                self.say("354 go on")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                text = b"".join(line[1:] if line.startswith(b"..") else line for line in lines)
                desk.mails.append(message_from_bytes(text, policy=policy.default))
                self.say("250 queued")
            elif verb == b"QUIT":
                return self.say("221 bye")
            else:
                self.say("250 OK" if verb in (b"MAIL", b"RCPT", b"RSET", b"NOOP") else "502 not implemented")
        return None

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def mail_desk() -> Iterator[tuple[Desk, str]]:
    """A mail server; its address has its user and the mailbox."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail) as server:
        desk = cast("Any", server).desk = Desk()
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield desk, f"smtp://bot%40example.org@127.0.0.1:{server.server_address[1]}/support@example.org"
        server.shutdown()
        thread.join()
