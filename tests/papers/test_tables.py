"""The paper's tables: its figures only where they are known, ours from runs."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from evaluation.run_folder import EvaluationRun, Latency, Metric, create_run
from papers.orconvqa import tables as paper
from papers.orconvqa.__main__ import app
from server.settings import Settings
from tests.evaluation import evaluation_data as data


def test_without_any_run_the_tables_say_what_is_missing() -> None:
    text = paper.text([])
    assert "| the paper | section | T5 | not at hand | not at hand | not at hand | .48 |" in text
    assert "No run of `python -m papers.orconvqa answers` was given" in text
    assert text.count("## ") == len(paper.SUBJECTS)


def test_our_numbers_stand_beside_the_papers(tmp_path: Path) -> None:
    writer = create_run(tmp_path, "retrieval", "r")
    for name, measure, mean in (("doc2dial", "R@20", 0.9), ("doc2dial-propositions", "AP", 0.4)):
        writer.metrics.append(Metric(name, "section", "typed:rrf", "all", measure, mean, mean, mean, 7))
    for name, part in (("doc2dial", "domain va"), ("doc2dial-va", "all"), ("doc2dial-own-pools", "all")):
        writer.metrics.append(Metric(name, "section", "typed:rrf", part, "AP", 0.5, 0.5, 0.5, 7))
    retrieval = writer.finish(Settings(home=tmp_path))
    writer = create_run(tmp_path, "rewriting", "w")
    writer.metrics.append(Metric("qrecc", "rewrite", "auto", "all", "ROUGE-L", 0.8, 0.8, 0.8, 4))
    writer.latencies.append(Latency("qrecc", "auto", 0.1, 0.1, 4))
    rows = [{"decision": "rewrite", "seconds": 0.1}] * 2 + [{"decision": "keep", "seconds": 0.02}] * 2
    writer.write_rows(rows, "qrecc", "auto", "rewrites.jsonl")
    text = paper.text([retrieval, writer.finish(Settings(home=tmp_path))])
    assert "| ours, doc2dial | section | typed:rrf |  |  |  | 0.900 |" in text
    assert "| propositions | section | typed:rrf | 0.400 |" in text
    assert "| all domains | va | section | typed:rrf | 0.500 |" in text
    assert "| its own | va | section | typed:rrf | 0.500 |" in text
    assert "| its own | all | section | typed:rrf | 0.500 |" in text
    assert "| qrecc | auto | 0.800 |" in text
    assert "| ours, qrecc | auto | 50% | 60.0 | 100.0 | 40% |" in text


def test_runs_of_the_command_become_the_tables(home: Path, tmp_path: Path) -> None:
    data.doc2dial(tmp_path / "data")
    words = ["retrieval", "--data", str(tmp_path / "data"), "--out", str(tmp_path), "--name", "units"]
    sets = ["--sets", "doc2dial-spans,doc2dial-propositions", "--systems", "typed:rrf,context:rrf,typed:variants"]
    result = CliRunner().invoke(app, [*words, *sets])
    assert result.exit_code == 0, result.output
    page = CliRunner().invoke(app, ["tables", str(tmp_path / "units")]).output
    assert "| propositions | section | typed:variants |" in page
    assert "| sentences (spans) | document | context:rrf |" in page


def test_the_gap_that_is_closed_is_between_the_typed_and_the_written_question(tmp_path: Path) -> None:
    means = {
        "typed:variants": 0.4,
        "auto:variants@before": 0.45,
        "auto:variants": 0.5,
        "human:variants": 0.6,
        "typed:variants+rerank": 0.5,
    }
    metrics = [
        Metric("s", level, system, part, measure, mean, mean, mean, 7)
        for level in ("passage", "document")
        for part in ("all", "kind list")
        for system, mean in means.items()
        for measure in ("AP", "R@5", "R@10", "R@20", "nDCG@5")
    ]
    latencies = (Latency("s", "auto:variants", 0.06, 0.09, 30),)
    text = paper.gap(EvaluationRun(tmp_path, {}, tuple(metrics), latencies=latencies))
    cells = " | ".join(" / ".join([one] * 5) for one in (".400", ".450", ".500", ".600"))
    assert f"| s (7) |  | {cells} | 25 % → 50 % | – / – / 60 / – |" in text
    assert "| s (7) | rerank | .500" in text
    assert "| s: kind list (7) |  | .400 / .400 |" in text
