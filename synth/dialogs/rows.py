"""A dialog's row: the same shape as other annotated dialogs, so that one reader reads both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from synth.folder import read_rows
from text.words import words


class DialogMessage(BaseModel):
    """One message.

    A user's carries `rewrite` (the question in full, equal to `text` where that stands alone), `relevant`
    (ids of the propositions that answer it) and their `documents`; `kind` tells a greeting or thanks from
    a question.
    """

    model_config = ConfigDict(frozen=True)

    role: Literal["user", "assistant"]
    text: str
    rewrite: str | None = None
    relevant: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None
    kind: Literal["question", "greeting", "thanks"] | None = None

    @property
    def asks(self) -> bool:
        """Whether it is a question that propositions answer."""
        return self.role == "user" and bool(self.relevant)

    @property
    def needs_rewrite(self) -> bool:
        """Whether the question is not understood alone."""
        return self.asks and words(self.text) != words(self.rewrite or "")


class Dialog(BaseModel):
    """A conversation and how it came about.

    `prompts` are prompt versions by step.
    """

    model_config = ConfigDict(frozen=True)

    dialog_id: str
    documents: tuple[str, ...]
    turns: tuple[DialogMessage, ...]
    prompts: dict[str, str] = {}
    model: str = ""
    seed: int = 0

    def questions(self) -> list[DialogMessage]:
        """The user's questions, in order."""
        return [turn for turn in self.turns if turn.asks]


def dialog_line(dialog: Dialog) -> str:
    """A dialog as a line of JSON, without what a turn does not have."""
    return json.dumps(dialog.model_dump(exclude_none=True, mode="json"), ensure_ascii=False)


def read_dialogs(path: Path) -> Iterator[Dialog]:
    """The dialogs of a file. Raises BadStore naming a line that is none."""
    return read_rows(path, Dialog, "dialog")
