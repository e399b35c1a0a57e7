"""`anaphora eval standalone`: the set is read, every arm without a model is made, counted and tested."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

from evaluation.run_folder import create_run, read_run
from papers.decontextualization.measuring import BASELINES, arms, make_all, measure, measure_retrieval
from papers.decontextualization.snippets import load_snippets
from papers.within import Within
from server.settings import Settings
from tests.encoder import WordEncoder


def rows() -> list[dict[str, object]]:
    found = []
    for n in range(7):
        found.append(
            {
                "_id": f"{n}.1",
                "split": "val" if n else "train(few-shot)",
                "paper_id": f"paper{n}",
                "title": f"Boilers of the {n}th kind",
                "abstract": f"This is about boilers and kettles, part {n}.",
                "section": "Introduction",
                "context_paragraph": f"We set the SRV to {n} bar. It holds.",
                "snippet": f"We set the SRV to {n} bar.",
                "snippet_surface_rewrite": f"The authors set the SRV to {n} bar.",
                "gold_decontextualized": f"The authors set the SRV [safety release valve] to {n} bar.",
                "questions": [
                    {
                        "question": "What does SRV stand for?",
                        "answer": "SRV stands for safety release valve.",
                        "evidence": [
                            {
                                "section": "Parts",
                                "paragraph": f"The safety release valve (SRV) of boiler {n} opens by itself.",
                                "paper_id": f"paper{n}",
                            }
                        ],
                    }
                ],
            }
        )
    return found


def test_every_arm_without_a_model_is_measured(tmp_path: Path) -> None:
    (tmp_path / "qa_decontext").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows())
    (tmp_path / "qa_decontext" / "snippets.jsonl").write_text(lines, encoding="utf-8")
    snippets, passages = load_snippets(tmp_path)
    assert [one.id for one in snippets] == [f"{n}.1" for n in range(1, 7)], "examples for prompts are left out"
    assert len(passages) == 21
    within = Within([one.text for one in passages], WordEncoder())
    chosen = [arm for arm in arms() if not arm.prompted]
    found = asyncio.run(make_all(snippets, chosen, within, None, until=math.inf, progress=lambda *_: None))
    writer = create_run(tmp_path / "runs", "standalone", "x")
    measure(snippets, found, writer)
    measure_retrieval(snippets, passages, within, writer)
    writer.finish(Settings(home=tmp_path))
    run = read_run(writer.folder)
    figures = {(one.system, one.measure): one.mean for one in run.metrics}
    assert figures["copy", "SARI-add"] == 0
    assert figures["gold QA/insert", "content-SARI"] == 1
    assert figures["gold answers appended", "content-SARI"] < 1
    assert figures["rules", "content-SARI"] > figures["title", "content-SARI"]
    assert all(figures[arm.name, measured] == 1 for arm in chosen for measured in ("bytes kept", "sentences kept"))
    assert 0 <= figures["fused", "evidence R@3"] <= 1
    assert {test.system for test in run.tests} == {arm.name for arm in chosen} - set(BASELINES)
    assert run.scores("qa_decontext", "copy", "content-SARI")["1.1"] == {"hits": 0, "surplus": 0, "misses": 3}
