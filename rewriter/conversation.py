"""Conversations: turns of a user and an assistant, oldest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns before the question that is asked now, oldest first; may be empty."""

    turns: tuple[Turn, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns)

    def last_user_turns(self, n: int) -> tuple[str, ...]:
        """Texts of the last `n` user turns, oldest first."""
        users = [turn.text for turn in self.turns if turn.role == "user"]
        return tuple(users[-n:]) if n > 0 else ()

    def last_exchange(self) -> tuple[str, str]:
        """The newest user turn and everything the assistant said after it (either may be empty)."""
        question, answers = "", list[str]()
        for turn in reversed(self.turns):
            if turn.role == "user":
                question = turn.text
                break
            answers.append(turn.text)
        return question, " ".join(reversed(answers))
