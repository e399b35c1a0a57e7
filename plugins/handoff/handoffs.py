"""Offer a person, take the conversation over with the visitor's consent, and tell how deliveries stand.

Whether a message asks for a person is told by its words, in the languages of the page. `mentions_person` is for
offering one beside an answer. `wants_person` is stricter: the message asks for nothing else, so that nothing is
searched. Of 5,562 questions of written and recorded dialogs none is taken for one.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, TypeAlias

import regex
from fastapi import APIRouter, Path
from markupsafe import Markup
from pydantic import Field

from plugins.handoff import HandoffSettings, store
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

_PERSON = r"(?:human|person|people|someone|somebody|agent|operator|representative|support|staff)"
_MENTIONS = regex.compile(
    rf"\b(?:talk|speak|chat|write|get|connect\w*|contact|reach|transfer\w*|pass|hand)\b(?:\W+\w+){{0,5}}?\W+(?:real\s+|human\s+)?{_PERSON}\b"
    rf"|\b(?:real|live|human)\s+{_PERSON}\b"
    r"|\b(?:mensch|mitarbeiter\w*|kundendienst|support)\w*\b(?:\W+\w+){0,4}?\W+(?:sprechen|reden|schreiben|erreichen|verbinden|kontaktieren)\b"
    r"|\b(?:hablar|contactar|comunicar\w*)\b(?:\W+\w+){0,4}?\W+(?:persona|humano|agente|alguien|soporte)\b"
    r"|\b(?:parler|contacter|joindre)\b(?:\W+\w+){0,4}?\W+(?:personne|humain|conseiller|quelqu|support)"
    r"|(?:التحدث|أتحدث|التواصل|أتواصل).{0,30}(?:شخص|إنسان|موظف|الدعم)"
    r"|转?人工客?服?|真人|联系客服|オペレーター|人間と|担当者(?:と|に)|有人(?:対応|チャット)",
    regex.IGNORECASE,
)

_WANTS = regex.compile(
    r"""
    (?(DEFINE)
      (?P<person> (?:(?:an?|the|some|your|any|one\s+of\s+your)\s+)?
        (?:(?:real|live|actual|human|customer|technical|tech|support)\s+)*
        (?:human(?:\s+being)?s?|persons?|people|someone|somebody|agents?|operators?|representatives?|reps?|staff
          |support(?:\s+(?:team|staff|agent|person))?|(?:help|service)\s*desk|team\s+member))
      (?P<mensch> (?:\w+\s+){0,2}? (?:mensch\w*|person|mitarbeiter\w*|kunden(?:dienst|service)|support\w*|jemand\w*
          |berater\w*|ansprechpartner\w*))
    )
    (?:
      (?:.{0,60}\b(?:i|me|we|us|to|just|please|let's)\s+)? (?:talk|speak|chat)(?:ing)?\s+(?:directly\s+)?
        (?:to|with)\s+(?&person)\b.{0,80}
      | (?:please\s+)?(?:connect|transfer|put|pass|hand|get|give)\s+(?:me|us)\s+(?:(?:over|through|on)\s+)?
        (?:(?:to|with)\s+)?(?&person)
      | (?:i|we)(?:\s+really)?\s+(?:want|need)\s+(?&person)
      | is\s+there\s+(?:any|some)(?:one|body)\s+(?:(?:i|we)\s+(?:can|could)|to)\s+(?:talk|speak|chat)\s+(?:to|with)
      | (?:an?\s+)?(?:(?:real|live|actual|human)\s+)+(?:human|person|agent|operator|representative|support|being)
      | human | operator

      | (?!wie\b|wo\b).{0,40}?\bmit\s+(?&mensch)(?:\s+\w+){0,4}?\s+(?:sprechen|reden|chatten|verb[iu]nden(?:\s+werden)?)
      | (?:bitte\s+)?verbinden?\s+(?:sie\s+)?mich(?:\s+bitte)?\s+mit\s+(?&mensch)

      | (?!c[oó]mo\b|d[oó]nde\b).{0,40}?\b(?:hablar|chatear|conversar|comunicar\w*)\s+con\s+(?:\w+\s+){0,2}?
        (?:persona|humano|agente|alguien|soporte|operador\w*|asesor\w*|representante).{0,60}

      | (?!comment\b|o[uù]\b).{0,40}?\b(?:parler|discuter|[ée]changer|chatter)\s+(?:à|avec|au)\s+(?:\w+\s+){0,2}?
        (?:personne|humain|conseill[eè]re?|quelqu['’]un|agent|support|op[ée]rateur).{0,60}

      | (?!كيف|أين|اين).{0,30}?(?:التحدث|أتحدث|اتحدث|التكلم|أتكلم|اتكلم)\s+(?:إلى|الى|مع)\s+.{0,12}?
        (?:شخص|إنسان|انسان|موظف|الدعم|ممثل|خدمة\s+العملاء).{0,40}

      | (?!如何|怎么|怎样|哪里)[^?？]{0,12}(?:转(?:接)?人工|(?:找|联系|跟|和|与)(?:人工|真人|客服))[^?？]{0,10}
      | (?:人工|真人)(?:客服|服务)?
      | [^?？]{0,12}(?:オペレーター|担当者|人間|スタッフ|サポート(?:の人)?)(?:と|に)(?:直接)?
        (?:話|はな|つな|繋|代わ|相談)(?!.*(?:方法|には))[^?？]{0,20}
    )
    [\s.!?？。！¡,،؟]* (?:please|now|bitte|por\s+favor|s'il\s+vous\s+pla[iî]t|svp|من\s+فضلك)? [\s.!?？。！؟]*
    """,
    regex.IGNORECASE | regex.VERBOSE,
)
_ASKS_HOW = regex.compile(r"\bhow\b|^\W*(?:where|what|when|why|which|who)\b", regex.IGNORECASE)
_LONGEST = 160


def mentions_person(text: str) -> bool:
    """Whether a message may want a person, beside what else it asks."""
    return _MENTIONS.search(text[:400]) is not None or wants_person(text)


def wants_person(text: str) -> bool:
    """Whether a message asks for a person and for nothing else."""
    line = " ".join(text.split()).lstrip("¿¡")
    if len(line) > _LONGEST or _ASKS_HOW.search(line):
        return False
    return _WANTS.fullmatch(line) is not None


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
        why = reason(conversation)
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
            reason=reason(conversation),
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


def reason(conversation: Sequence[StoredTurn]) -> Reason:
    """Return why the last turn of a conversation, oldest first, offers a person; empty where it does not."""
    if conversation[-1].status == "refused":
        return "refused"
    if mentions_person(conversation[-1].question):
        return "asked"
    doubted = [turn.done is not None and turn.done.doubted for turn in conversation[-2:]]
    return "doubted" if doubted == [True, True] else ""


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
