"""Many citances and the sentences they may mean: the lines they come in, and the rows that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.questions import BadRow, json_rows, optional, present, text
from evaluation.run_folder import InputLine
from papers.asking import QuoteAsker
from papers.citation_summaries.retelling import explain
from papers.citation_summaries.setups import Citance, SetupRanker, WhyPlan
from papers.measures import objects
from plugins.evidence.explain import WhySource
from plugins.evidence.source import SourcePassage

if TYPE_CHECKING:
    from index.encoders import Encoder


@dataclass(frozen=True, slots=True)
class WhyAsked:
    """A citance and the source it cites."""

    citance: Citance
    source: WhySource


def read_citances(path: Path) -> list[InputLine[WhyAsked]]:
    """The lines of a file. Raises MissingSet, BadRow."""
    found: dict[str, InputLine[WhyAsked]] = {}
    for where, row in json_rows(
        present(path, "The file of citances", "papers/citation_summaries/README.md describes its lines.")
    ):
        name = text(row, "id", where)
        if name in found:
            raise BadRow(f"{where}: the id {name!r} is there twice.")
        sentences = [
            SourcePassage(str(one.get("id", n)), one["text"], str(one.get("section") or ""))
            for n, one in enumerate(objects(row, "sentences", where))
        ]
        citance = Citance(text(row, "citance", where), optional(row, "before"), optional(row, "after"))
        found[name] = InputLine(name, WhyAsked(citance, WhySource(tuple(sentences), optional(row, "lead"))))
    return list(found.values())


async def why_row(
    line: InputLine[WhyAsked], plan: WhyPlan, asker: QuoteAsker | None, encoder: Encoder | None
) -> dict[str, Any]:
    """A line of the output. Without an encoder sentences are found by their words alone. Raises AskingFailed."""
    found = await explain(SetupRanker(line.asked.source, encoder), line.asked.citance, plan, asker)
    return {
        "id": line.id,
        "ranking": list(found.ranking),
        "shown": [{"ids": list(one.ids), "text": one.text} for one in found.shown],
        "lead_first": found.lead_first,
    }
