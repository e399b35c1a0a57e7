"""Lines of a file made into rows side by side, each kept as it comes, so that an interrupted run goes on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InputLine(Generic[T]):
    """What a line of the input asks for, under the id it came with."""

    id: str
    asked: T

    def fingerprint(self, label: str) -> str:
        """Equal for what is equal and made in the same way."""
        return hashlib.sha256(f"{label}\n{self.asked!r}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finished_rows(partial: Path, lines: Sequence[InputLine[T]], label: str) -> dict[str, Row]:
    """The rows that an interrupted run kept and that still hold; torn lines do not count."""
    wanted = {line.id: line.fingerprint(label) for line in lines}
    found: dict[str, Row] = {}
    if partial.is_file():
        # A line ends where a line feed is: texts may hold other characters that count as line breaks.
        for raw in partial.read_text("utf-8", errors="replace").split("\n"):
            try:
                kept = json.loads(raw)
                if wanted.get(kept["row"]["id"]) == kept["input"]:
                    found[kept["row"]["id"]] = kept["row"]
            except (ValueError, KeyError, TypeError):
                continue
    return found


async def make_rows(
    lines: Sequence[InputLine[T]],
    done: Mapping[str, Row],
    partial: Path,
    label: str,
    make: Callable[[InputLine[T]], Awaitable[Row]],
    *,
    at_once: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Row]:
    """The rows of all lines: those that are `done`, and new ones, each added to `partial` as it comes.

    Raises what `make` raises; what was made until then is kept.
    """
    rows = dict(done)
    places = asyncio.Semaphore(at_once)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="utf-8") as file:

        async def one(line: InputLine[T]) -> None:
            async with places:
                rows[line.id] = row = await make(line)
                file.write(json.dumps({"input": line.fingerprint(label), "row": row}, ensure_ascii=False) + "\n")
                file.flush()
                advance()

        try:
            async with asyncio.TaskGroup() as group:
                for line in lines:
                    if line.id not in done:
                        group.create_task(one(line))
        except ExceptionGroup as failed:
            # One line's failure ends the others; it is told alone.
            raise failed.exceptions[0] from None
    return rows
