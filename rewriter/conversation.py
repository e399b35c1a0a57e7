"""Conversations: messages of a user and an assistant, oldest first. A turn is a question and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages before the question that is asked now, oldest first; may be empty."""

    messages: tuple[Message, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.messages)

    def last_exchange(self) -> tuple[str, str]:
        """The newest user message and everything the assistant said after it (either may be empty)."""
        question, answers = "", list[str]()
        for message in reversed(self.messages):
            if message.role == "user":
                question = message.text
                break
            answers.append(message.text)
        return question, " ".join(reversed(answers))
