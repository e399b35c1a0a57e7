"""Searching in batches: the run is what a chat turn finds, in a form that evaluation tools read."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.search import ranked
from cli.shared.error_handler import ExitCode
from evaluation.metrics import run_lines
from index.documents import Hit, Passage
from rewriter.protocol import Conversation, Message
from server.settings import Settings

QUERIES = [
    {"id": "q1", "text": "How long does parental leave last?"},
    {
        "id": "q2",
        "history": [
            {"role": "user", "text": "How do I apply for parental leave?"},
            {"role": "assistant", "text": "With form PL-7."},
        ],
        "text": "and by fax?",
    },
    {"id": "q3", "text": "Are taxi rides refunded?"},
]

Search = Callable[..., Result]


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, QUERIES)))
    return path


@pytest.fixture
def search(command_home: Path, queries: Path) -> Search:
    def run(out: Path, *options: str) -> Result:
        return CliRunner().invoke(app, ["search", "--queries", str(queries), "--run", str(out), *options])

    return run


def read_run(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        question, q0, identifier, rank, score, tag = line.split()
        found.setdefault(question, []).append(identifier)
        assert (q0, tag, int(rank)) == ("Q0", "anaphora", len(found[question]))
        assert float(score) > 0
    return found


def test_the_run_is_what_a_turn_finds(search: Search, command_home: Path, model_home: Path, tmp_path: Path) -> None:
    from server.chat.loaded_models import Collections, Models
    from server.rewriters import open_rewriter
    from server.turn.search import TurnSearch

    out = tmp_path / "out.trec"
    result = search(out, "--rerank", "auto")
    assert result.exit_code == 0, result.output
    settings = Settings(home=command_home)
    models = Models(settings)
    collections = Collections(settings, models)
    turn = TurnSearch(
        collection=collections.get, rewriter=open_rewriter(settings), settings=settings, reranker=models.reranker()
    )
    history = Conversation(
        (Message("user", "How do I apply for parental leave?"), Message("assistant", "With form PL-7."))
    )
    found = turn.find("and by fax?", collection="docs", conversation=history, k=100)
    collections.close()
    assert read_run(out)["q2"] == [hit.passage.id for hit in found.hits]


def test_a_follow_up_finds_the_page_of_the_conversation(search: Search, tmp_path: Path) -> None:
    out = tmp_path / "out.trec"
    assert search(out, "--rerank", "never", "--level", "document").exit_code == 0
    run = read_run(out)
    assert list(run) == ["q1", "q2", "q3"]
    assert [run[name][0] for name in run] == ["leave.md", "leave.md", "travel.md"]
    assert all(len(set(ranking)) == len(ranking) for ranking in run.values())


def test_passages_can_be_filtered(search: Search, tmp_path: Path) -> None:
    out = tmp_path / "out.trec"
    assert search(out, "--rerank", "never", "--level", "document", "--where", "source=travel.md").exit_code == 0
    assert {identifier for ranking in read_run(out).values() for identifier in ranking} == {"travel.md"}
    assert search(out, "--where", "nonsense").exit_code == ExitCode.BAD_INPUT


def test_a_missing_collection_and_bad_lines_write_nothing(search: Search, queries: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.trec"
    missing = search(out, "--collection", "nowhere")
    assert missing.exit_code == ExitCode.NOT_FOUND
    assert "nowhere" in missing.stderr
    queries.write_text(json.dumps(QUERIES[0]) + '\n{"id": "q9"}\n')
    bad = search(out)
    assert bad.exit_code == ExitCode.BAD_INPUT
    assert "line 2" in bad.stderr
    assert not list(tmp_path.glob("*out.trec*"))


def hit(identifier: str, document: str, score: float) -> Hit:
    return Hit(Passage(identifier, document, "", "text", 0, 4), score)


def test_a_document_has_the_rank_of_its_best_passage() -> None:
    hits = [hit("a1", "a", 0.9), hit("b1", "b", 0.8), hit("a2", "a", 0.7), hit("c1", "c", 0.6)]
    assert ranked(hits, "document") == [("a", 0.9), ("b", 0.8), ("c", 0.6)]
    assert [name for name, _ in ranked(hits, "passage")] == ["a1", "b1", "a2", "c1"]


def test_scores_fall_in_single_precision_whatever_the_hits_say() -> None:
    import numpy as np

    lines = list(run_lines("q", [("a", 0.5), ("b", 0.5), ("c", 0.9), ("d", 0.0), ("e", 0.0)], "tag"))
    scores = [np.float32(line.split()[4]) for line in lines]
    assert all(higher > lower for higher, lower in pairwise(scores))
