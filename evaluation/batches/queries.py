"""Query files of the batch commands: one JSON object a line, checked as a whole before any work begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evaluation.errors import BadRow, EvaluationError
from rewriter.conversation import Conversation, Message, Role

ROLES: Mapping[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "agent": "assistant"}
SHAPE = '{"id": "q1", "history": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}], "text": "…"}'
SHOWN = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueryLine:
    """A question in its conversation."""

    id: str
    conversation: Conversation
    text: str


def read_queries(path: Path) -> list[QueryLine]:
    """The questions of `path` in its order. Raises as `checked_lines`."""
    return checked_lines(path, lambda line, _: parse(line), SHAPE, lambda one: one.id)


def checked_lines(
    path: Path, parse: Callable[[str, int], T], shape: str, name: Callable[[T], str], *, most: int = 0
) -> list[T]:
    """What `parse` makes of each line and its number, in their order; blank lines are passed over.

    `parse` raises ValueError for a bad one. Raises BadRow naming up to ten bad lines by number, EvaluationError where
    there is nothing to read, or more than `most` lines.
    """
    found: list[T] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            one = parse(line, number)
            if name(one) in seen:
                raise ValueError(f"its id {name(one)!r} stands in line {seen[name(one)]} already")
        except ValueError as error:
            problems.append(f"line {number}: {error}")
        else:
            seen[name(one)] = number
            found.append(one)
        if most and len(found) > most:
            raise EvaluationError(f"{path} holds more than {most} questions; split it.")
    if problems:
        count = "a bad line" if len(problems) == 1 else f"{len(problems)} bad lines"
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise BadRow(
            f"{path} has {count}: {'; '.join(problems[:SHOWN])}{more}. "
            f"Correct or remove them; a line looks like {shape}."
        )
    if not found:
        raise EvaluationError(f"{path} holds no question; a line looks like {shape}.")
    return found


def json_object(line: str) -> dict[str, Any]:
    """The object of one line; raises ValueError saying what is wrong with it."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def parse(line: str) -> QueryLine:
    """One line as a question; raises ValueError saying what is wrong with it."""
    row = json_object(line)
    identifier = row.get("id", row.get("_id"))
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    if not isinstance(identifier, str) or not identifier.strip():
        raise ValueError('no "id"')
    if identifier.split() != [identifier]:
        raise ValueError(f'white space in its "id" {identifier!r}, which a run file cannot hold')
    history = row.get("history") or []
    if not isinstance(history, list):
        raise ValueError('"history" is not a list')
    turns = tuple(_turn(item, place) for place, item in enumerate(history, 1))
    return QueryLine(identifier, Conversation(turns), _text(row, "question"))


def _turn(item: object, place: int) -> Message:
    if not isinstance(item, dict):
        raise ValueError(f'turn {place} of "history" is not an object')
    role = ROLES.get(item["role"]) if isinstance(item.get("role"), str) else None
    if role is None:
        raise ValueError(f'turn {place} of "history" has the "role" {item.get("role")!r}, not "user" or "assistant"')
    return Message(role, _text(item, f"turn {place}"))


def _text(row: Mapping[str, object], what: str) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        raise ValueError(f'{what} has no "text"')
    if what == "question" and not text.strip():
        raise ValueError('its "text" is empty')
    return text


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise EvaluationError(f"There is no file {path}; give the path of a file with one JSON object a line.")
    try:
        with path.open(encoding="utf-8-sig", newline=None) as file:
            yield from enumerate(file, 1)
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
