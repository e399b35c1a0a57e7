"""When a turn offers a person: it is refused, the second answer in a row is doubted, or somebody asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import regex

from server.chat import StoredTurn

Reason: TypeAlias = Literal["", "refused", "doubted", "asked"]

_PERSON = r"(?:human|person|people|someone|somebody|agent|operator|representative|support|staff)"
_ASKS = regex.compile(
    rf"\b(?:talk|speak|chat|write|get|connect\w*|contact|reach|transfer\w*|pass|hand)\b(?:\W+\w+){{0,5}}?\W+(?:real\s+|human\s+)?{_PERSON}\b"
    rf"|\b(?:real|live|human)\s+{_PERSON}\b"
    r"|\b(?:mensch|mitarbeiter\w*|kundendienst|support)\w*\b(?:\W+\w+){0,4}?\W+(?:sprechen|reden|schreiben|erreichen|verbinden|kontaktieren)\b"
    r"|\b(?:hablar|contactar|comunicar\w*)\b(?:\W+\w+){0,4}?\W+(?:persona|humano|agente|alguien|soporte)\b"
    r"|\b(?:parler|contacter|joindre)\b(?:\W+\w+){0,4}?\W+(?:personne|humain|conseiller|quelqu|support)"
    r"|(?:التحدث|أتحدث|التواصل|أتواصل).{0,30}(?:شخص|إنسان|موظف|الدعم)"
    r"|转?人工客?服?|真人|联系客服|オペレーター|人間と|担当者(?:と|に)|有人(?:対応|チャット)",
    regex.IGNORECASE,
)


def reason(turns: Sequence[StoredTurn], turn_id: str) -> Reason:
    """Return why the turn `turn_id` of a conversation, oldest first, offers a person; empty where it does not."""
    places = [turn.id for turn in turns]
    if turn_id not in places:
        return ""
    turn, before = turns[places.index(turn_id)], turns[: places.index(turn_id)][-1:]
    if turn.status == "refused":
        return "refused"
    if _ASKS.search(turn.question[:400]):
        return "asked"
    both = [*before, turn]
    return "doubted" if len(both) == 2 and all(one.done is not None and one.done.doubted for one in both) else ""
