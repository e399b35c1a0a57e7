"""The API of bots, which have a key of their own: answers in threads, ratings, and hand-offs to a person."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from plugins.bots.threads import BotAnswer, Threads
from server.api.dependencies import Service, StrictBody
from server.chat.base import NotFound
from text.files import NAME_CHARS, NAME_PATTERN

router = APIRouter(tags=["Bots"])
_ID = r"^[A-Za-z0-9:._-]{1,200}$"


class OfThread(StrictBody):
    """A thread, by its service, team, channel and time."""

    thread: str = Field(pattern=_ID)


class BotQuestion(OfThread):
    """A question of a person in a thread."""

    person: str = Field(pattern=_ID, description="Such as `slack:TEAM:USER`.")
    question: str = Field(min_length=1, pattern=r"\S")
    collection: str = Field(
        default="",
        pattern=rf"^$|{NAME_PATTERN}",
        max_length=NAME_CHARS,
        description="For a new thread; empty: the default collection.",
    )


class OfThreadsTurn(OfThread):
    """An answer in a thread."""

    turn: str = Field(max_length=64)


class BotRating(OfThreadsTurn):
    """A person's word on it."""

    rating: Literal["up", "down"]


class BotHandoff(OfThreadsTurn):
    """Consent that the thread up to there is passed on."""

    place: str = Field(max_length=1000, description="Where people find the thread.")


async def _threads(service: Service) -> Threads:
    return Threads(service)


KeysThreads = Annotated[Threads, Depends(_threads)]


@router.post("/v1/bots/answers", summary="Answer in a thread")
async def answer(body: BotQuestion, threads: KeysThreads) -> BotAnswer:
    """Answer a question. A thread belongs to whoever began it, as `key:KEY/person`, with the rights of the key."""
    return await threads.answer(body.thread, body.person, body.question, body.collection)


@router.get("/v1/bots/threads/{thread}", status_code=204, summary="Ask whether a thread is known")
async def find_thread(thread: Annotated[str, Path(pattern=_ID)], threads: KeysThreads) -> None:
    """Tell whether something was asked in a thread."""
    if not await threads.knows(thread):
        raise NotFound("Nothing was asked in this thread.")


@router.post("/v1/bots/reactions", status_code=204, summary="Rate an answer, or pass its thread on to a person")
async def react(body: BotRating | BotHandoff, threads: KeysThreads) -> None:
    """Keep what somebody thinks of an answer; or bring the thread up to it to a person, where the plugin `handoff` is
    switched on."""
    if isinstance(body, BotRating):
        await threads.rate(body.thread, body.turn, body.rating)
    else:
        await threads.hand_over(body.thread, body.turn, body.place)
