"""The chat page's part: the link or the form below a turn, and the call that sends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from markupsafe import Markup
from pydantic import Field

from plugins.handoff import HandoffSettings
from plugins.handoff.asking import wants_person
from plugins.handoff.handoffs import MAX_CONTACT_CHARS, MAX_MESSAGE_CHARS, HandoffService, NewHandoff
from server.chat import ChatError, ChatService
from server.chat.service import ServiceCore
from server.turn.run import Replier
from server.turn.system_messages import A_PERSON
from text.translation import gettext
from ui.templates import render

FORM = Path(__file__).parent / "handoff.html"


def _handoffs(service: ChatService) -> HandoffService:
    return HandoffService(service.core, service.principal)


async def offer(service: ChatService, turn_id: str) -> Markup:
    """Return what is offered below a turn; nothing to those whose turn it is not."""
    try:
        offered = await _handoffs(service).offer(turn_id)
    except ChatError:
        return Markup("")
    return render(FORM, offer=offered, key=turn_id, sent=False) if offered.kind else Markup("")


def replier(core: ServiceCore) -> Replier | None:
    """Return what replies to whoever asks for a person and for nothing else; None while nobody is offered."""
    if not core.settings.of(HandoffSettings).enabled:
        return None
    return lambda text: gettext(A_PERSON) if wants_person(text) else ""


async def hand_over(
    service: ChatService,
    turn: str,
    consent: bool,
    contact: Annotated[str, Field(max_length=MAX_CONTACT_CHARS)] = "",
    message: Annotated[str, Field(max_length=MAX_MESSAGE_CHARS)] = "",
) -> dict[str, Any]:
    """→ `{html}` that stands in place of the form."""
    await _handoffs(service).hand_over(turn, NewHandoff(consent=consent, contact=contact, message=message))
    return {"html": str(render(FORM, offer=None, key=turn, sent=True))}
