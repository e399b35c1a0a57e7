"""Many quotes made readable: read from JSON lines, made side by side, and kept as they come."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.errors import BadRow
from evaluation.sets.rows import json_rows, optional, present, text
from server.evidence.answering import QuoteAnswer
from server.evidence.asking import QuoteAsker
from server.evidence.source import SourcePassage, SourceQuote
from server.evidence.standalone import StandalonePlan, StandaloneQuote, make_standalone, passage_of
from server.evidence.within import Within

if TYPE_CHECKING:
    from index.encoders import Encoder


@dataclass(frozen=True, slots=True)
class QuoteLine:
    """A quote of the input, under the id it came with."""

    id: str
    quote: SourceQuote

    def fingerprint(self, label: str) -> str:
        """Equal for equal quotes in equal documents, made in the same way."""
        return hashlib.sha256(f"{label}\n{self.quote!r}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_quotes(path: Path) -> list[QuoteLine]:
    """The lines of a file. Raises MissingSet, BadRow."""
    found: dict[str, QuoteLine] = {}
    for where, row in json_rows(present(path, "The file of quotes", "docs/standalone.md describes its lines.")):
        name = text(row, "id", where)
        if name in found:
            raise BadRow(f"{where}: the id {name!r} is there twice.")
        passages = row.get("passages") or []
        if not isinstance(passages, list) or not all(
            isinstance(one, dict) and isinstance(one.get("text"), str) for one in passages
        ):
            raise BadRow(f'{where}: "passages" is no list of objects with "id" and "text".')
        found[name] = QuoteLine(
            name,
            SourceQuote(
                snippet=text(row, "snippet", where),
                title=optional(row, "title"),
                lead=optional(row, "abstract"),
                section=optional(row, "section"),
                paragraph=optional(row, "paragraph"),
                passages=tuple(SourcePassage(str(one.get("id", n)), one["text"]) for n, one in enumerate(passages)),
            ),
        )
    return list(found.values())


def output_row(line: QuoteLine, made: StandaloneQuote) -> dict[str, Any]:
    """A line of the output."""

    def asked(one: QuoteAnswer) -> dict[str, str]:
        return {"question": one.question, "answer": one.answer, "passage": passage_of(one, line.quote)}

    return {
        "id": line.id,
        "text": made.text,
        "spans": [{"kind": span.kind, "text": span.text} for span in made.spans],
        "questions": [asked(one) for one in made.questions],
        "refused": made.refused,
    }


def finished_quotes(partial: Path, lines: Sequence[QuoteLine], label: str) -> dict[str, dict[str, Any]]:
    """The rows that an interrupted run kept and that still hold; torn lines do not count."""
    wanted = {line.id: line.fingerprint(label) for line in lines}
    found: dict[str, dict[str, Any]] = {}
    if partial.is_file():
        for raw in partial.read_text("utf-8", errors="replace").splitlines():
            try:
                kept = json.loads(raw)
                if wanted.get(kept["row"]["id"]) == kept["input"]:
                    found[kept["row"]["id"]] = kept["row"]
            except (ValueError, KeyError, TypeError):
                continue
    return found


async def make_quotes(
    lines: Sequence[QuoteLine],
    done: Mapping[str, dict[str, Any]],
    partial: Path,
    plan: StandalonePlan,
    label: str,
    *,
    asker: QuoteAsker | None,
    encoder: Encoder | None = None,
    at_once: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, Any]]:
    """The rows of all lines: those that are `done`, and new ones, each added to `partial` as it comes.

    Without an encoder passages are found by their words alone. Raises AskingFailed.
    """
    rows = dict(done)
    places = asyncio.Semaphore(at_once)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="utf-8") as file:

        async def one(line: QuoteLine) -> None:
            async with places:
                texts = [passage.text for passage in line.quote.passages]
                within = Within(texts, encoder) if asker is not None else None
                made = await make_standalone(line.quote, plan, asker, within)
                rows[line.id] = row = output_row(line, made)
                kept = {"input": line.fingerprint(label), "row": row}
                file.write(json.dumps(kept, ensure_ascii=False) + "\n")
                file.flush()
                advance()

        try:
            async with asyncio.TaskGroup() as group:
                for line in lines:
                    if line.id not in done:
                        group.create_task(one(line))
        except ExceptionGroup as failed:
            # One quote's failure ends the others; it is told alone.
            raise failed.exceptions[0] from None
    return rows
