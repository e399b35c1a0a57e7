"""Gaps of the documents: the stub of a section to write, and whether a gap is closed by now.

A gap is closed where its questions, asked again without a model, get a sure answer from the documents as they are now,
or the answer that a person wrote. Nothing of it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from server.turn.events import DoneEvent
from server.turn.models import TurnModels
from server.turn.run import TurnEngine, TurnInput
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from server.chat.service import ServiceCore

AGAIN, WORDINGS = 20, 2
"""Gaps that are asked again, and questions of each; a question takes the time of a turn without its model."""

Closed: TypeAlias = Literal["", "curated", "documents"]


@dataclass(frozen=True, slots=True)
class _WithoutModel:
    """The models of a search, for turns that quote."""

    core: ServiceCore

    async def of_turn(self, answer_tokens: int | None = None, group: str = "") -> TurnModels:
        return await self.of_search(group)

    async def of_search(self, group: str = "") -> TurnModels:
        return await self.core.models.of_search(group)


async def closed_by(core: ServiceCore, collection: str, group: str, questions: Sequence[str]) -> Closed:
    """Return who closed a gap of these questions, each understood alone; empty while one is open."""
    engine = TurnEngine(
        collection=core.opened.get, models=_WithoutModel(core), settings=core.settings, answerers=core.answerers
    )
    closed: Closed = ""
    for question in questions[:WORDINGS]:
        place = core.admission.enter()
        try:
            await place.wait()
            request = TurnInput(question=question, collection=collection, group=group, split_questions=False)
            async with aclosing(engine.run(request)) as events:
                done = [event async for event in events if isinstance(event, DoneEvent)]
        finally:
            place.release()
        if not done or not (done[0].written or (done[0].status == "quoted" and not done[0].doubted)):
            return ""
        closed = "curated" if done[0].written else "documents"
    return closed


def draft(questions: Sequence[str]) -> str:
    """Return the stub of a section that answers these questions, in Markdown."""
    lines = [escaped(question) for question in questions]
    return "\n".join((f"## {lines[0]}", "", "…", "", "<!-- People asked:", *(f"- {line}" for line in lines), "-->"))


def escaped(text: str) -> str:
    """Return a text without what Markdown or HTML would read as its own."""
    line = "".join(f"\\{char}" if char in "\\`*_[]<>|#~&" else char for char in sanitize_line(text))
    return re.sub(r"^(\d*)([-+=.):])", r"\1\\\2", line)  # no list, rule or underline
