"""How well support scores tell what a passage says from what it does not, and what the extractive answerer quotes.

    python benchmarks/bench_support.py --data DATA [--home HOME] [--limit N] [--planted]

`--data` is a folder with `doc2dial/` (documents, dialogs), `ice_gold/` and `mtrag/`. Statements are judged against
the passage they were written from and against another one of the same document or kind; besides, their digits
are changed and a negation is put into them. Questions about cloud services are asked to the cloud corpus, and
questions about public agencies too, which it cannot answer. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from index.collection import Collection
from index.documents import Query
from index.encoders import Encoder, load_encoder
from index.indexer import index_paths
from papers.citation_summaries.measuring import auc
from papers.measures import estimate_of
from plugins.evidence.explain import WhyRanker, WhySource
from plugins.evidence.source import SourcePassage
from server.registry import resolve
from server.settings import Settings
from server.turn.events import Evidence
from server.turn.evidence import MATCHES, quotable_sentences, select_evidence
from server.turn.support import SUPPORTED, SupportScorer
from text.sentences import sentence_spans
from text.words import negations, stems

THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
_VERB = re.compile(r"\b(?:is|are|can|will|may|must|should)\b")


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, the passage it was written from, and passages it was not written from."""

    statement: str
    source: str
    others: tuple[str, ...]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def doc2dial(data: Path, chance: random.Random) -> list[Case]:
    """What agents said, and the sections they said it from."""
    sections = list(rows(data / "doc2dial" / "sections.jsonl"))
    text = {row["_id"]: row["text"] for row in sections}
    cases = []
    for dialog in rows(data / "doc2dial" / "dialogs.jsonl"):
        for asked, said in zip(dialog["turns"], dialog["turns"][1:], strict=False):
            sources = [name for name in asked.get("relevant") or () if name in text]
            statement = said["text"]
            if said["role"] != "assistant" or not sources or statement.endswith("?") or len(statement.split()) < 5:
                continue
            document = sources[0].partition("::")[0]
            others = [name for name in text if name.partition("::")[0] == document and name not in sources]
            if len(others) >= 5:
                picked = chance.sample(others, 5)
                cases.append(Case(statement, text[sources[0]], tuple(text[name] for name in picked)))
    return cases


def ice_gold(data: Path, chance: random.Random) -> list[Case]:
    """Sentences of free answers about trials, with the quotes given for them; others answer the same question."""
    found = [row for row in rows(data / "ice_gold" / "gold_standards.jsonl") if row["quotes"] and row["answer"]]
    cases = []
    for row in found:
        others = [
            "\n".join(other["quotes"])
            for other in found
            if other["question"] == row["question"] and other["document_id"] != row["document_id"]
        ]
        if len(others) < 5:
            continue
        picked = tuple(chance.sample(others, 5))
        for start, end in sentence_spans(row["answer"]):
            statement = row["answer"][start:end]
            if len(stems(statement)) >= 3:
                cases.append(Case(statement, "\n".join(row["quotes"]), picked))
    return cases


def passages(texts: Sequence[str]) -> list[Evidence]:
    return [
        Evidence(
            n=n,
            passage_id=str(n),
            document_id="",
            title="",
            heading=[],
            page=None,
            start=0,
            end=len(text),
            text=text,
            source="",
            score=0,
            ranks={},
        )
        for n, text in enumerate(texts, 1)
    ]


def judge(name: str, cases: Sequence[Case], chance: random.Random) -> None:
    """Shares of statements that count as supported, by threshold."""
    columns: dict[str, list[float]] = {"its passage": [], "another": [], "digits changed": [], "negated": []}
    for case in cases:
        scorer = SupportScorer(passages([case.source, *case.others]))
        columns["its passage"].append(scorer.score(case.statement, [1]))
        columns["another"].append(scorer.score(case.statement, [chance.randint(2, 6)]))
        if re.search(r"\d", case.statement):
            changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), case.statement)
            columns["digits changed"].append(scorer.score(changed, [1]))
        if (verb := _VERB.search(case.statement)) and not negations(case.statement):
            denied = f"{case.statement[: verb.end()]} not{case.statement[verb.end() :]}"
            columns["negated"].append(scorer.score(denied, [1]))
    table(f"{name}: share counted as supported", columns, SUPPORTED)


def planted(name: str, cases: Sequence[Case], encoder: Encoder) -> None:
    """How often the right source scores above a planted wrong one, by words and by the nearest sentence's meaning."""
    rows: dict[str, list[tuple[str, float, float]]] = {"support": [], "nearness": [], "mean of both": []}
    for place, case in enumerate(cases):
        pair = []
        for text in (case.source, case.others[0]):
            source = WhySource(tuple(SourcePassage(str(n), text[a:b]) for n, (a, b) in enumerate(sentence_spans(text))))
            support = SupportScorer(passages([text])).score(case.statement, [1])
            near = WhyRanker(source, encoder).near(case.statement)
            pair.append((support, near, (support + near) / 2))
        for n, column in enumerate(rows.values()):
            column.append((str(place), pair[0][n], pair[1][n]))
    print(f"\n{name}: AUC between its source and a planted one ({len(cases)})\n")
    for column, values in rows.items():
        found = estimate_of(lambda places, v=values: auc([v[i] for i in places]), [one for one, *_ in values])
        print(f"| {column} | {found.mean:.3f} ({found.low:.3f}-{found.high:.3f}) |", flush=True)
    for other in ("nearness", "mean of both"):
        both = list(zip(rows["support"], rows[other], strict=True))
        found = estimate_of(
            lambda places, b=both: auc([b[i][1] for i in places]) - auc([b[i][0] for i in places]),
            [one[0][0] for one in both],
        )
        print(f"{other} - support: {found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})", flush=True)


def quoting(data: Path, home: Path, limit: int, chance: random.Random) -> None:
    """Shares of questions for which something would be quoted, by threshold."""
    encoder = load_encoder(resolve(Settings().index.encoder, home))
    root = home / "collections"
    index_paths(root, "bench-cloud", [data / "mtrag" / "cloud" / "corpus.jsonl"], encoder, passage_tokens=220)
    collection = Collection.open(root, "bench-cloud", encoder)
    turns = [t for row in rows(data / "mtrag" / "dialogs.jsonl") if row["collection"] == "cloud" for t in row["turns"]]
    answerable = [t["rewrite"] or t["text"] for t in turns if t.get("answerability") == ["ANSWERABLE"]]
    agencies = [row["text"] for row in rows(data / "doc2dial" / "queries.jsonl") if not row["metadata"]["history"]]
    columns: dict[str, list[float]] = {"answerable": [], "about agencies": []}
    for name, questions in (("answerable", answerable), ("about agencies", agencies)):
        for question in chance.sample(questions, min(limit, len(questions))):
            hits = collection.search([Query(question)], k=6)
            evidence = select_evidence(hits, limit=6, budget=1200)
            quotes = quotable_sentences(question, evidence, SupportScorer(evidence))
            columns[name].append(max((score for score, _ in quotes), default=0.0))
    table("quoting: share of questions answered by a quote", columns, MATCHES)
    collection.close()


def table(title: str, columns: dict[str, list[float]], chosen: float) -> None:
    print(f"\n{title}\n")
    print("| threshold |" + "".join(f" {name} ({len(values)}) |" for name, values in columns.items() if values))
    print("|---|" + "---|" * sum(bool(values) for values in columns.values()))
    for threshold in THRESHOLDS:
        shares = [sum(v >= threshold for v in values) / len(values) for values in columns.values() if values]
        mark = " (chosen)" if threshold == chosen else ""
        print(f"| {threshold:.2f}{mark} |" + "".join(f" {share:.3f} |" for share in shares), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--planted", action="store_true", help="only planted wrong sources")
    options = parser.parse_args()
    for name, cases in (("doc2dial", doc2dial), ("ice_gold", ice_gold)):
        chance = random.Random(7)
        found = cases(options.data, chance)
        chosen = chance.sample(found, min(options.limit, len(found)))
        if not options.planted:
            judge(name, chosen, chance)
        planted(name, chosen, load_encoder(resolve(Settings().index.encoder, options.home)))
    if options.planted:
        return
    quoting(options.data, options.home, options.limit, random.Random(7))


if __name__ == "__main__":
    main()
