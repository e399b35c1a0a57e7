"""The paper's tables: its figures only where they are known, ours from runs."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from evaluation.run_folder import Latency, Metric, create_run
from papers.orconvqa import tables as paper
from papers.orconvqa.__main__ import app
from server.settings import Settings
from tests.evaluation import evaluation_data as data


def test_without_any_run_every_cell_says_what_is_missing() -> None:
    text = paper.text([])
    assert (
        "| the paper: MultiDoc2Dial | passage | T5 | not at hand | not at hand | not at hand | not at hand | .48 |"
        in text
    )
    assert text.count("## ") == 7
    cells = [
        cell.strip() for line in text.splitlines() if line.startswith("| the paper") for cell in line.split("|")[2:-1]
    ]
    assert cells
    assert all(cells)


def test_our_numbers_stand_beside_the_papers(tmp_path: Path) -> None:
    writer = create_run(tmp_path, "retrieval", "r")
    for name, measure, mean in (("doc2dial", "R@20", 0.9), ("doc2dial-propositions", "AP", 0.4)):
        writer.metrics.append(Metric(name, "section", "typed:rrf", "all", measure, mean, mean, mean, 7))
    for name, part, n in (("doc2dial-va", "all", 7), ("doc2dial-va", "all", 3), ("doc2dial-own-pools", "all", 7)):
        for mean, measure in ((n / 10, "AP"), (n / 8, "R@20")):
            writer.metrics.append(Metric(name, "section", "typed:rrf", part, measure, mean, mean, mean, n))
    writer.metrics.append(Metric("doc2dial", "section", "typed:rrf", "domain va", "AP", 0.123, 0.1, 0.2, 7))
    retrieval = writer.finish(Settings(home=tmp_path))
    writer = create_run(tmp_path, "rewriting", "w")
    for system in ("auto", "/somewhere/t5"):
        writer.metrics.append(Metric("qrecc", "rewrite", system, "all", "ROUGE-L", 0.8, 0.8, 0.8, 4))
        writer.metrics.append(Metric("qrecc", "rewrite", system, "all", "gate F1", 0.7, 0.7, 0.7, 3))
        writer.latencies.append(Latency("qrecc", system, 0.1, 0.1, 4))
        decisions = [("rewrite", 0.1), ("refused", 0.1), ("keep", 0.02), ("keep", 0.02), ("keep", 0.0)]
        rows = [{"id": str(n), "decision": one, "seconds": seconds} for n, (one, seconds) in enumerate(decisions)]
        writer.write_rows(rows, "qrecc", system, "rewrites.jsonl")
    history = [{"role": "user", "text": "x"}]
    writer.write_rows(
        ({"id": str(n), "history": history if n < 4 else []} for n in range(5)), "qrecc", "questions.jsonl"
    )
    text = paper.text([retrieval, writer.finish(Settings(home=tmp_path))])
    assert "| ours: Doc2Dial together | section | typed:rrf | 7 | – | – | – | 0.900 |" in text
    assert "| ours: Doc2Dial by domain | section | typed:rrf | 7 | 0.700 | – | – | 0.875 |" in text
    assert "| propositions | section | typed:rrf | 7 | 0.400 |" in text
    assert "| va (7) | all (7) |" in text
    assert "| section | typed:rrf | – | – | – | 0.700 / 0.875 | 0.700 / 0.875 |" in text, (
        "a sample gives way to the whole"
    )
    assert "0.123" not in text, "a domain is searched among its own documents"
    assert "| qrecc | t5 | 4 | 0.800 | – | – | – | 0.700 | – | 100.0 |" in text, "a folder is named, its place is not"
    assert "| ours: qrecc | t5 | 50% | 60.0 | 100.0 | 40% |" in text, "of questions that follow others"


def test_runs_of_the_command_become_the_tables(home: Path, tmp_path: Path) -> None:
    data.doc2dial(tmp_path / "data")
    words = ["retrieval", "--data", str(tmp_path / "data"), "--out", str(tmp_path), "--name", "units"]
    sets = ["--sets", "doc2dial-spans,doc2dial-propositions", "--systems", "typed:rrf,context:rrf,typed:variants"]
    result = CliRunner().invoke(app, [*words, *sets])
    assert result.exit_code == 0, result.output
    page = CliRunner().invoke(app, ["tables", str(tmp_path / "units")]).output
    assert "| propositions | section | typed:variants |" in page
    assert "| sentences (spans) | document | context:rrf |" in page
