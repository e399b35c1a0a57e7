"""`anaphora eval why`: every setup is measured, the checks are made, and a model's words are graded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from evaluation.run_folder import create_run, read_run
from papers.asking import QuoteAsker
from papers.citation_summaries.citances import load_citances
from papers.citation_summaries.measuring import (
    WhyBench,
    auc,
    measure_checks,
    measure_setups,
    measure_written,
    setups,
)
from server.settings import Settings
from tests.chat_model import ScriptedChatModel
from tests.encoder import WordEncoder

THINGS = ("valve", "sink", "boiler", "pipe", "stove", "filter", "seal", "lid", "knob", "hose", "lamp", "pump")


def write(folder: Path) -> None:
    documents, citances = [], []
    for n in range(6):
        said = [
            f"The {thing} of house {n} is in room {place}, and it is warm."
            for thing, place in zip(THINGS, "abcdefghijkl", strict=True)
        ]
        texts = [f"Heating {n}", f"This paper is about heating in house {n}.", *said]
        sentences = [{"sid": str(sid), "text": text} for sid, text in enumerate(texts)]
        sections = [
            {"heading": "Abstract", "sids": ["1"]},
            {"heading": "Parts", "sids": [str(sid) for sid in range(2, len(texts))]},
        ]
        metadata = {"sentences": sentences, "sections": sections}
        documents.append({"_id": f"P{n}", "title": texts[0], "text": " ".join(texts), "metadata": metadata})
        for place in (0, 11, 11):
            citances.append(
                {
                    "reference_paper": f"P{n}",
                    "citance": f"The {THINGS[place]} of house {n} is warm (Smith, 2019).",
                    "cited_sids": [str(2 + place)],
                    "cited_text": said[place],
                }
            )
    (folder / "scisumm").mkdir()
    for name, rows in (("documents", documents), ("citances", citances)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "scisumm" / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def test_every_setup_and_check_is_measured(tmp_path: Path) -> None:
    write(tmp_path)
    cases, sources = load_citances(tmp_path)
    assert len(cases) == 12, "annotations of one citance are united"
    assert sources["P1"].lead == "This paper is about heating in house 1."
    assert {one.document: one.part for one in cases}["P1"] == "dev"
    writer = create_run(tmp_path / "runs", "why", "x")
    bench = WhyBench.of(cases, sources, WordEncoder(), writer, lambda *_: None)
    measure_setups(bench, None)
    measure_checks(bench)
    judge = ScriptedChatModel(script=lambda _: "4")
    writes = ScriptedChatModel(script=lambda _: "The valve is in room 0. It costs 900 euros.")
    asyncio.run(measure_written(bench, QuoteAsker(writes), judge))
    writer.finish(Settings(home=tmp_path))
    run = read_run(writer.folder)
    figures = {(one.level, one.system, one.part, one.measure): one.mean for one in run.metrics}
    published = [plan for plan in setups() if plan.ranking in ("bm25", "dense") and not plan.keywords]
    assert len(published) == 12
    assert all(("sentences", plan.name, "dev", "nDCG@5") in figures for plan in setups())
    assert figures["sentences", "citance/bm25/sentences", "all", "nDCG@5"] > 0.9
    assert figures["check", "another", "all", "refused"] >= figures["check", "own", "all", "refused"]
    assert figures["check", "nearness", "all", "AUC of wrong citations"] > 0.5
    written = "citance/weighted/sentences, written"
    assert figures["guard", written, "all", "linked"] == 1
    assert figures["guard", written, "all", "something refused"] == 1
    assert figures["judge", written, "all", "focus"] == figures["judge", "lead", "all", "coverage"] == 4
    assert any("sign test" in note for note in run.notes)
    assert {test.baseline for test in run.tests} == {"citance/fused/sentences", "citance/bm25/sentences"}


def test_statistics_are_those_by_hand() -> None:
    assert auc([("a", 0.9, 0.1), ("b", 0.5, 0.5)]) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
