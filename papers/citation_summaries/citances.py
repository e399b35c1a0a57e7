"""Sentences that cite a paper, and the sentences of that paper which people found to be meant.

The set is `scisumm` (CL-SciSumm): papers as sentences in sections, and citances of other papers, whose text beside
the citance is missing. Annotations of one citance are united. Every second paper is one that weights and thresholds
were fitted on; the others are `dev`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evaluation.questions import BadRow, json_rows, names, present, text
from papers.citation_summaries.setups import Citance, source_of
from plugins.evidence.explain import WhySource
from plugins.evidence.source import SourcePassage

SET = "scisumm"


@dataclass(frozen=True, slots=True)
class CitanceCase:
    """A citance, the paper it cites, the ids of the sentences that are meant, and their text as people copied it."""

    id: str
    document: str
    citance: Citance
    gold: frozenset[str]
    cited_text: str
    part: Literal["fitted", "dev"]


def load_citances(data: Path, every: int = 1) -> tuple[list[CitanceCase], dict[str, WhySource]]:
    """The citances with a gold sentence, and the papers by id. Raises MissingSet, BadRow."""
    published = "It is published as CL-SciSumm."
    sources = {
        text(row, "_id", where): _source(row, where)
        for where, row in json_rows(present(data / SET / "documents.jsonl", "The set of cited papers", published))
    }
    united: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for where, row in json_rows(present(data / SET / "citances.jsonl", "The set of citances", published)):
        document = text(row, "reference_paper", where)
        if document not in sources:
            raise BadRow(f"{where}: there is no paper {document!r}.")
        gold, said = united.setdefault((document, text(row, "citance", where)), ({}, {}))
        gold.update(dict.fromkeys(names(row, "cited_sids", where)))
        said[text(row, "cited_text", where)] = None
    fitted = set(sorted(sources)[::2])
    found = []
    for n, ((document, citance), (gold, said)) in enumerate(united.items()):
        known = frozenset(gold) & {one.id for one in sources[document].sentences}
        if known:
            part: Literal["fitted", "dev"] = "fitted" if document in fitted else "dev"
            found.append(CitanceCase(str(n), document, Citance(citance), known, " ".join(said), part))
    return found[::every], sources


def _source(row: Mapping[str, object], where: str) -> WhySource:
    more = row.get("metadata")
    if not isinstance(more, dict) or not isinstance(more.get("sentences"), list):
        raise BadRow(f'{where} has no "sentences".')
    sections = [(str(one["heading"]), [str(sid) for sid in one["sids"]]) for one in more.get("sections") or ()]
    heading = {sid: name for name, sids in sections for sid in sids}
    sentences = [
        SourcePassage(str(one["sid"]), str(one["text"]), heading.get(str(one["sid"]), "")) for one in more["sentences"]
    ]
    opening = set(sections[0][1]) if sections else set()
    lead = " ".join(one.text for one in sentences if one.id in opening)
    return source_of(lead, sentences, str(row.get("title") or ""))
