"""Offer a person, take the conversation over with the visitor's consent, and tell how deliveries stand."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Path
from markupsafe import Markup
from pydantic import Field

from plugins.handoff import HandoffSettings, store
from plugins.handoff.asking import mentions_person, wants_person
from plugins.handoff.delivering import Content, Exchange
from plugins.handoff.store import HandoffRecord
from server.api.dependencies import Listing, StrictBody, service_of
from server.api.security import network
from server.chat import ChatError, ChatService, StoredTurn
from server.chat.base import (
    MAX_LISTED,
    Conflict,
    Forbidden,
    InvalidRequest,
    LimitReached,
    ServiceBase,
    clean,
    requires,
)
from server.chat.service import ServiceCore
from server.store import turns
from server.store.records import View
from server.turn.run import Replier
from server.turn.system_messages import A_PERSON
from text.languages import gettext
from text.sanitize import is_showable, sanitize_line, sanitize_text
from ui.templates import render

MAX_MESSAGE_CHARS, MAX_CONTACT_CHARS = 4000, 254
PER_HOUR = 30
"""Conversations that one key, or person, hands over from one address; the key of a web site is known to everybody."""
TURNS = 20
"""Turns that go along, the newest."""
_MARKERS = re.compile(r" ?\[\d{1,3}\]")
_CONTACT = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+\.[^\s@<>,;:\"()\[\]\\.]+")

_FORM = FilePath(__file__).parent / "handoff.html"

router = APIRouter(tags=["Hand-off"])


@dataclass(frozen=True, slots=True)
class HandoffOffer:
    """How and why a person is offered after a turn; `contact` tells whether an e-mail address goes along."""

    kind: Literal["", "link", "form"] = ""
    reason: Reason = ""
    link: str = ""
    contact: bool = False


class NewHandoff(StrictBody):
    """Consent of a visitor, and additions to the conversation."""

    consent: bool = Field(description="Whether the visitor agrees that the conversation is handed over.")
    contact: str = Field("", max_length=MAX_CONTACT_CHARS, description="The visitor's e-mail address.")
    message: str = Field("", max_length=MAX_MESSAGE_CHARS)


class HandoffService(ServiceBase):
    """Hand-offs of conversations that belong to `principal`."""

    @requires("ask")
    async def offer(self, turn_id: str) -> HandoffOffer:
        """Return what is offered after a turn. Raises NotFound."""
        settings = self.core.settings.of(HandoffSettings)
        turn, conversation = await self._own(turn_id)
        why = reason(conversation, turn.id)
        if not settings.enabled or not why or await self._read(store.is_over, turn.id):
            return HandoffOffer()
        if settings.kind == "link":
            return HandoffOffer(kind="link", reason=why, link=settings.address)
        return HandoffOffer(kind="form", reason=why, contact=settings.asks_contact)

    @requires("ask")
    async def hand_over(self, turn_id: str, new: NewHandoff) -> str:
        """Keep the conversation up to a turn for its delivery; return the hand-off's id.

        Raises NotFound, Forbidden while nothing takes it, Conflict for a second time, InvalidRequest without consent,
        LimitReached.
        """
        settings = self.core.settings.of(HandoffSettings)
        if settings.kind in ("", "link"):
            raise Forbidden("Nobody takes conversations over; an operator sets plugins.handoff.kind.")
        turn, conversation = await self._own(turn_id)
        if not new.consent:
            raise InvalidRequest("A conversation is handed over with the visitor's consent alone.", param="consent")
        contact = clean(new.contact, MAX_CONTACT_CHARS, "contact").strip()
        if contact and not (_CONTACT.fullmatch(contact) and is_showable(contact)):
            raise InvalidRequest("This is no e-mail address.", param="contact")
        who = self.principal
        if waits := await self.core.limits.hit(
            "handoffs", f"{who.account} {network(who.origin)}", PER_HOUR, seconds=3600
        ):
            raise LimitReached(gettext("You have asked a lot; please wait a little."), retry_after=waits)
        content = Content(
            id=uuid.uuid4().hex,
            created=time.time(),
            collection=turn.collection,
            reason=reason(conversation, turn.id),
            contact=contact if settings.asks_contact else "",
            message=sanitize_text(clean(new.message, MAX_MESSAGE_CHARS, "message")).strip(),
            conversation=[_exchange(exchange) for exchange in conversation[-TURNS:]],
        )
        belongs = await self.reached(turn.collection)
        row = content.model_dump(include={"id", "collection", "reason"})
        row |= {"turn_id": turn.id, "content": content.model_dump_json()}
        if not await self._write(store.add, belongs, row):
            raise Conflict("This conversation was handed over already.", code="handed_over")
        await self.account("handoff.send", content.id, collection=turn.collection, group=belongs.group)
        return content.id

    @requires("review")
    async def listing(self) -> list[HandoffRecord]:
        """Return the newest hand-offs that are seen, newest first."""
        return await self._read(store.listing, self.principal, MAX_LISTED)

    async def _own(self, turn_id: str) -> tuple[StoredTurn, list[StoredTurn]]:
        """Return a turn of whoever acts, and its conversation up to it. Raises NotFound."""
        turn = await self._turn(turn_id)
        if await self._read(turns.owner, turn.id, self.principal) != self.principal.id:
            raise Forbidden("Only who asked hands a conversation over.")
        if turn.conversation_id is None:
            return turn, await self._read(turns.of_visitor, turn.id, self.principal, TURNS)
        shown_turns = await self._read(turns.of_conversation, turn.conversation_id, self.principal)
        places = [shown_turn.id for shown_turn in shown_turns]
        return turn, shown_turns[: places.index(turn.id) + 1] if turn.id in places else [turn]


def _exchange(turn: StoredTurn) -> Exchange:
    cited = turn.done.citations if turn.done else []
    sources = {(sanitize_line(" › ".join((citation.title, *citation.heading))), citation.url) for citation in cited}
    return Exchange(
        question=sanitize_text(turn.question),
        answer=sanitize_text(_MARKERS.sub("", turn.answer)),
        status=turn.status,
        sources=[{"title": title, "url": url} for title, url in sorted(sources)],
    )


Handoffs = Annotated[HandoffService, service_of(HandoffService)]
TurnId = Annotated[str, Path(description="The turn's id.", max_length=100)]


class HandoffId(View):
    """A conversation that was taken over."""

    id: str


@router.post("/v1/turns/{turn_id}/handoff", status_code=202, summary="Hand a conversation over")
async def hand_over(turn_id: TurnId, body: NewHandoff, handoffs: Handoffs) -> HandoffId:
    """Bring the conversation up to this turn to a person, in the background; it is kept until it has arrived."""
    return HandoffId(id=await handoffs.hand_over(turn_id, body))


@router.get("/v1/handoffs", summary="List hand-offs")
async def list_handoffs(handoffs: Handoffs) -> Listing[HandoffRecord]:
    """List conversations that were handed over, newest first: what has arrived, and why the rest has not."""
    return Listing(data=await handoffs.listing())


Reason: TypeAlias = Literal["", "refused", "doubted", "asked"]


def reason(turns: Sequence[StoredTurn], turn_id: str) -> Reason:
    """Return why the turn `turn_id` of a conversation, oldest first, offers a person; empty where it does not."""
    places = [turn.id for turn in turns]
    if turn_id not in places:
        return ""
    turn, before = turns[places.index(turn_id)], turns[: places.index(turn_id)][-1:]
    if turn.status == "refused":
        return "refused"
    if mentions_person(turn.question):
        return "asked"
    both = [*before, turn]
    return "doubted" if len(both) == 2 and all(each.done is not None and each.done.doubted for each in both) else ""


async def offer_below(service: ChatService, turn_id: str) -> Markup:
    """Return what is offered below a turn; nothing to those whose turn it is not."""
    try:
        offered = await HandoffService(service.core, service.principal).offer(turn_id)
    except ChatError:
        return Markup("")
    return render(_FORM, offer=offered, key=turn_id, sent=False) if offered.kind else Markup("")


def replier(core: ServiceCore) -> Replier | None:
    """Return what replies to whoever asks for a person and for nothing else; None while nobody is offered."""
    if not core.settings.of(HandoffSettings).enabled:
        return None
    return lambda text: gettext(A_PERSON) if wants_person(text) else ""


async def send_form(
    service: ChatService,
    turn: str,
    consent: bool,
    contact: Annotated[str, Field(max_length=MAX_CONTACT_CHARS)] = "",
    message: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)] = "",
) -> dict[str, Any]:
    """→ `{html}` that replaces the form."""
    new = NewHandoff(consent=consent, contact=contact, message=message)
    await HandoffService(service.core, service.principal).hand_over(turn, new)
    return {"html": str(render(_FORM, offer=None, key=turn, sent=True))}
