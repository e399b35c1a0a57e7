"""Many quotes made readable: the lines they come in, and the rows that are made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.questions import BadRow, json_rows, optional, present, text
from evaluation.run_folder import InputLine
from papers.asking import QuoteAsker
from papers.decontextualization.questions import passage_of
from papers.decontextualization.rules import QuoteAnswer, SourceQuote
from papers.decontextualization.variants import StandalonePlan, make_standalone
from papers.measures import objects
from papers.within import Within
from plugins.evidence.source import SourcePassage

if TYPE_CHECKING:
    from index.encoders import Encoder


def read_quotes(path: Path) -> list[InputLine[SourceQuote]]:
    """The lines of a file. Raises MissingSet, BadRow."""
    found: dict[str, InputLine[SourceQuote]] = {}
    for where, row in json_rows(
        present(path, "The file of quotes", "papers/decontextualization/README.md describes its lines.")
    ):
        name = text(row, "id", where)
        if name in found:
            raise BadRow(f"{where}: the id {name!r} is there twice.")
        passages = objects(row, "passages", where)
        found[name] = InputLine(
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


async def quote_row(
    line: InputLine[SourceQuote], plan: StandalonePlan, asker: QuoteAsker | None, encoder: Encoder | None
) -> dict[str, Any]:
    """A line of the output. Without an encoder passages are found by their words alone. Raises AskingFailed."""
    within = Within([passage.text for passage in line.asked.passages], encoder) if asker is not None else None
    made = await make_standalone(line.asked, plan, asker, within)

    def asked(one: QuoteAnswer) -> dict[str, str]:
        return {"question": one.question, "answer": one.answer, "passage": passage_of(one, line.asked)}

    return {
        "id": line.id,
        "text": made.text,
        "spans": [{"kind": span.kind, "text": span.text} for span in made.spans],
        "questions": [asked(one) for one in made.questions],
        "refused": made.refused,
    }
