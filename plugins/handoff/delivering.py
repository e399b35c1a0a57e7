"""Adapters that bring a conversation to people: a signed webhook, e-mail, GitHub's issues, Zendesk's tickets.

Each takes the content and returns what it is called there; it may arrive twice where an answer was lost. What visitors
and documents say is quoted so that it mentions nobody and closes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import httpx
from pydantic import BaseModel, Field, ValidationError

from plugins.handoff import HandoffSettings, store
from server.guarded_http import AddressGuard, guarded_transport
from server.store import StoreError

if TYPE_CHECKING:
    from server.chat import ChatService
    from server.chat.service import ServiceCore


SECONDS = 30.0
TITLE_CHARS = 120
_READ_BYTES = 1 << 20


class Exchange(BaseModel):
    """A question and its answer; `sources` are titles and addresses of what it cites."""

    question: str
    answer: str
    status: str
    sources: list[dict[str, str]]


class Content(BaseModel):
    """A conversation as it is handed over. `created` is in seconds since the epoch."""

    id: str
    created: float
    collection: str
    reason: str
    contact: str = Field(description="The visitor's e-mail address; may be empty.")
    message: str = Field(description="What the visitor adds.")
    conversation: list[Exchange]

    @property
    def title(self) -> str:
        """Return its subject, in one line."""
        text = " ".join((self.message or self.conversation[-1].question).split())
        return text if len(text) <= TITLE_CHARS else text[:TITLE_CHARS].rstrip() + "…"

    @property
    def text(self) -> str:
        parts = [self.message] if self.message else []
        for exchange in self.conversation:
            sources = "".join(f"\n- {source['title']} {source['url']}".rstrip() for source in exchange.sources)
            parts.append(f"Question: {exchange.question}\n\nAnswer ({exchange.status}): {exchange.answer}{sources}")
        return "\n\n".join(parts)


class DeliveryFailed(Exception):
    """A conversation could not be delivered now; the text says why."""


class DeliveryGuard(AddressGuard):
    """The guard of deliveries."""

    error = DeliveryFailed
    setting = "plugins.handoff.private_hosts"


def _guard(settings: HandoffSettings) -> DeliveryGuard:
    return DeliveryGuard(frozenset(map(str.lower, settings.private_hosts)))


def send(settings: HandoffSettings, content: Content) -> str:
    """Bring `content` to where the settings say, and return what it is called there. Raises DeliveryFailed. Blocks."""
    try:
        return ADAPTERS[settings.kind](settings, content)
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL, smtplib.SMTPException) as error:
        raise DeliveryFailed(f"{type(error).__name__}: {str(error)[:300]}") from error


def signature(secret: str, timestamp: str, body: bytes) -> str:
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def webhook(settings: HandoffSettings, content: Content) -> str:
    """Post the content as JSON, signed with the time."""
    body, now = content.model_dump_json().encode(), str(int(time.time()))
    signed = signature(settings.secret.get_secret_value(), now, body)
    headers = {"Content-Type": "application/json", "Anaphora-Timestamp": now, "Anaphora-Signature": signed}
    _post(settings, settings.address, body, {**headers, "Idempotency-Key": content.id})
    return content.id


def github(settings: HandoffSettings, content: Content) -> str:
    """Open an issue. It names no contact, for it may be public."""
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", content.text))]))
    issue = {"title": content.title, "body": f"{fence}text\n{content.text}\n{fence}\n\nHand-off {content.id}"}
    headers = {"Authorization": f"Bearer {settings.secret.get_secret_value()}", "Accept": "application/vnd.github+json"}
    reply = _post(settings, f"{settings.address.rstrip('/')}/issues", json.dumps(issue).encode(), headers)
    return str(reply.get("html_url", ""))


def zendesk(settings: HandoffSettings, content: Content) -> str:
    """Make a ticket, requested by the visitor where there is an address."""
    ticket: dict[str, Any] = {"subject": content.title, "comment": {"body": content.text}, "external_id": content.id}
    if content.contact:
        ticket["requester"] = {"name": content.contact.partition("@")[0], "email": content.contact}
    user, _, password = settings.secret.get_secret_value().partition(":")
    body, headers = json.dumps({"ticket": ticket}).encode(), {"Idempotency-Key": content.id}
    url = f"{settings.address.rstrip('/')}/api/v2/tickets.json"
    reply = _post(settings, url, body, headers, httpx.BasicAuth(user, password))
    return str((reply.get("ticket") or {}).get("id", ""))


def _post(
    settings: HandoffSettings, url: str, body: bytes, headers: Mapping[str, str], auth: httpx.Auth | None = None
) -> Mapping[str, Any]:
    """Return the object that an address answers. No redirect is followed: a secret is for the address that is set."""
    transport, backend = guarded_transport(_guard(settings))
    backend.until = time.monotonic() + SECONDS
    sent = {"Content-Type": "application/json", "User-Agent": "anaphora", "Accept-Encoding": "identity", **headers}
    with (
        httpx.Client(transport=transport, timeout=SECONDS, trust_env=False) as client,
        client.stream("POST", url, content=body, headers=sent, auth=auth or httpx.USE_CLIENT_DEFAULT) as answer,
    ):
        read = bytearray()
        for chunk in answer.iter_raw():
            read += chunk
            if len(read) > _READ_BYTES:
                break
        if not answer.is_success:
            raise DeliveryFailed(f"{urlsplit(url).hostname} answered {answer.status_code}: {bytes(read[:200])!r}")
    try:
        reply = json.loads(read or b"{}")
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}


class _Smtp(smtplib.SMTP):
    """Speaks to checked addresses alone; with `context` in TLS from the beginning."""

    def __init__(self, checked: DeliveryGuard, context: ssl.SSLContext | None) -> None:
        super().__init__(timeout=SECONDS)
        self._checked, self._context = checked, context

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        self._host = host  # which STARTTLS compares the certificate with
        sock = socket.create_connection((self._checked.addresses(host, port)[0], port), timeout)
        return self._context.wrap_socket(sock, server_hostname=host) if self._context else sock


def email(settings: HandoffSettings, content: Content) -> str:
    """Send a mail, to which an answer goes to the visitor. A password is sent in TLS alone."""
    place, password = urlsplit(settings.address), settings.secret.get_secret_value()
    user, host, recipient = unquote(place.username or ""), place.hostname or "", unquote(place.path.strip("/"))
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = user if "@" in user else recipient, recipient, content.title
    message["Message-ID"] = f"<{content.id}@{host}>"
    if content.contact:
        message["Reply-To"] = content.contact
    message.set_content(f"{content.text}\n\nFrom: {content.contact or 'no address given'}\nHand-off {content.id}\n")
    tls = place.scheme == "smtps"
    with _Smtp(_guard(settings), ssl.create_default_context() if tls else None) as smtp:
        smtp.connect(host, place.port or (465 if tls else 587))
        smtp.ehlo()
        if not tls and smtp.has_extn("starttls"):
            smtp.starttls(context=ssl.create_default_context())
            smtp.ehlo()
            tls = True
        if password and not tls:
            raise DeliveryFailed(f"{host} offers no TLS: the password is not sent")
        if password:
            smtp.login(user, password)
        smtp.send_message(message)
    return str(message["Message-ID"])


ADAPTERS: Mapping[str, Callable[[HandoffSettings, Content], str]] = {
    "webhook": webhook,
    "email": email,
    "github": github,
    "zendesk": zendesk,
}


log = logging.getLogger(__name__)

TICK = 2.0
"""Seconds between two looks at what is due."""


async def deliver(service: ChatService, tick: float = TICK) -> None:
    """Deliver what is due, until cancelled."""
    if service.core.settings.of(HandoffSettings).kind in ("", "link"):
        return
    while True:
        try:
            await deliver_due(service.core)
        except StoreError as error:
            log.warning("hand-offs are not looked at: %s", error)
        await asyncio.sleep(tick)


async def deliver_due(core: ServiceCore, now: float | None = None) -> None:
    """Try each delivery that is due once. Raises StoreError."""
    settings, database = core.settings.of(HandoffSettings), core.database
    while (row := await database.write(store.claim, time.time() if now is None else now)) is not None:
        try:
            content = Content.model_validate_json(row.content)
            reference = await asyncio.to_thread(send, settings, content)
        except (DeliveryFailed, ValidationError) as error:
            log.warning("hand-off %s could not be delivered and is tried again: %s", row.id, error)
            await database.write(store.failed, row.id, row.tries, str(error))
        else:
            await database.write(store.arrived, row.id, reference)
