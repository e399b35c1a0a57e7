"""The list of conversations: grouped by day, searched, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from server.chat import ConversationSummary
from text.translation import gettext
from ui.templates import render


@dataclass(frozen=True, slots=True)
class Group:
    """Conversations of one stretch of time."""

    name: str
    entries: list[ConversationSummary]


def _age(updated: float, now: datetime) -> str:
    day, today = datetime.fromtimestamp(updated).date(), now.date()
    if day >= today:
        return gettext("Today")
    if day == today - timedelta(days=1):
        return gettext("Yesterday")
    return gettext("Last seven days") if day > today - timedelta(days=7) else gettext("Earlier")


def grouped(conversations: Sequence[ConversationSummary], now: datetime) -> list[Group]:
    """Newest first, under the names of their age in days (of this machine's clock)."""
    groups: dict[str, list[ConversationSummary]] = {}
    for conversation in sorted(conversations, key=lambda one: one.updated, reverse=True):
        groups.setdefault(_age(conversation.updated, now), []).append(conversation)
    return [Group(name, entries) for name, entries in groups.items()]


def conversations_html(
    conversations: Sequence[ConversationSummary], query: str = "", *, all_changed: bool = True
) -> Markup:
    """The list; with `query`, what a search for it found, as one group. `all_changed`: also those of others may be
    renamed and deleted."""
    if query:
        groups = [Group(gettext("Found"), list(conversations))] if conversations else []
    else:
        groups = grouped(conversations, datetime.now())
    return render("conversations.html", groups=groups, query=query, all_changed=all_changed)
