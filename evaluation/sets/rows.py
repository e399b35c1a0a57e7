"""Reading data files: JSON lines and JSON documents, checked, with errors that name the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.errors import BadRow, MissingSet
from rewriter.conversation import Conversation, Message, Role

ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant"}


def present(path: Path, what: str, where_to_get: str) -> Path:
    """`path` if it exists; raises MissingSet saying what was looked for and where it is published."""
    if not path.exists():
        raise MissingSet(f"{what} is not there: {path} does not exist. {where_to_get}")
    return path


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (file and line, for messages) and object of every line that is not blank. Raises BadRow."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise BadRow(f"{where} is not JSON ({error}).") from None
                if not isinstance(row, dict):
                    raise BadRow(f"{where} holds no JSON object.")
                yield where, row
    except UnicodeDecodeError as error:
        raise BadRow(f"{path} is not UTF-8 text ({error.reason}).") from error


def json_document(path: Path) -> dict[str, Any]:
    """A whole file as one JSON object. Raises BadRow."""
    try:
        value = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadRow(f"{path} is not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise BadRow(f"{path} holds no JSON object.")
    return value


def text(row: dict[str, Any], key: str, where: str) -> str:
    """A text that must be there and say something."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f'{where} has no "{key}".')
    return value


def optional(row: dict[str, Any], key: str) -> str:
    """A text, empty where it is missing; the first of a list."""
    value = row.get(key)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, str) else ""


def names(row: dict[str, Any], key: str, where: str) -> list[str]:
    """A list of ids, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRow(f'{where}: "{key}" is not a list of ids.')
    return value


def objects(row: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A list of objects that each have a text, empty where it is missing."""
    value = row.get(key) or []
    if not isinstance(value, list) or not all(
        isinstance(one, dict) and isinstance(one.get("text"), str) for one in value
    ):
        raise BadRow(f'{where}: "{key}" is no list of objects with "id" and "text".')
    return value


def conversation(turns: object, where: str) -> Conversation:
    """Turns with `role` and `text`, oldest first."""
    if not isinstance(turns, list):
        raise BadRow(f"{where}: the history is not a list.")
    found = []
    for turn in turns:
        role = ROLES.get(str(turn.get("role"))) if isinstance(turn, dict) else None
        if role is None or not isinstance(turn.get("text"), str):
            raise BadRow(f'{where}: a turn of the history has no "role" (user or assistant) and "text".')
        found.append(Message(role, turn["text"]))
    return Conversation(tuple(found))
