"""Retrieval runs: measured by the code of a turn, kept in folders, with gates."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli import app as product
from evaluation import run_folder
from evaluation.metrics import FULL_MEASURES, per_question, read_run
from index.collection import Collection
from index.encoders import load_encoder
from papers.datasets import load_set, read_qrels
from papers.orconvqa.__main__ import app
from rewriter.protocol import PassThroughRewriter
from server.registry import resolve
from server.settings import Settings
from server.turn.search import TurnSearch
from tests.evaluation import evaluation_data as data


@pytest.fixture
def home(home: Path, tmp_path: Path) -> Path:
    data.mtrag(tmp_path / "data")
    data.doc2dial(tmp_path / "data")
    return home


def retrieval(tmp_path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["retrieval", "--data", str(tmp_path / "data"), *options])


def test_a_run_holds_all_that_its_numbers_came_from(home: Path, tmp_path: Path) -> None:
    systems = "typed:bm25,typed:dense,context:rrf,human:rrf,typed:variants,human:variants+rerank"
    result = retrieval(tmp_path, "--sets", "mtrag-offices,doc2dial", "--systems", systems, "--name", "one")
    assert result.exit_code == 0, result.output
    run = run_folder.read_run(home / "eval" / "runs" / "one")
    assert run.description["kind"] == "retrieval"
    assert run.description["settings"]["retrieval"]["profile"]["depth"] == 100
    assert "api_key" not in json.dumps(run.description)
    assert str(home) not in json.dumps(run.description["settings"])
    assert {metric.level for metric in run.metrics} == {"passage", "section", "document"}
    assert "human:rrf" in "".join(run.notes), "doc2dial has no human rewrites, and the run says so"
    assert {one.system for one in run.latencies} >= {"typed:bm25", "human:variants+rerank"}
    folder = run.folder / "mtrag-offices"
    for level in ("passage", "document"):
        qrels = read_qrels(folder / f"{level}.qrels.tsv")
        found = read_run(folder / run_folder.slug("typed:variants") / f"{level}.trec")
        ours = run.scores("mtrag-offices", "typed:variants", level)
        for question, values in per_question(found, qrels, FULL_MEASURES).items():
            assert ours[question] == pytest.approx(values, abs=1e-5)
    follow_ups = [m for m in run.metrics if m.part == "all" and m.set == "mtrag-offices" and m.measure == "AP"]
    assert all(m.n == 4 and m.low <= m.mean <= m.high for m in follow_ups)


def test_the_legs_of_an_evaluation_are_those_of_a_turn(home: Path, tmp_path: Path) -> None:
    assert retrieval(tmp_path, "--sets", "doc2dial", "--systems", "typed:variants", "--name", "one").exit_code == 0
    settings = Settings(home=home)
    encoder = load_encoder(resolve(settings.index.encoder, home))
    collection = Collection.open(home / "eval" / "collections", "doc2dial", encoder)
    search = TurnSearch(collection=lambda _: collection, rewriter=PassThroughRewriter(), settings=settings)
    found = read_run(home / "eval" / "runs" / "one" / "doc2dial" / run_folder.slug("typed:variants") / "section.trec")
    for question in load_set("doc2dial", tmp_path / "data").questions:
        hits = search.find(question.text, collection="", conversation=question.conversation, k=100).hits
        assert found[question.id] == [hit.passage.id for hit in hits]
    collection.close()


def test_a_set_that_lies_elsewhere_takes_the_place_of_the_one_before(home: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "first", tmp_path / "second"):
        data.product(folder)
        sets = ("--sets", "product-gate", "--systems", "typed:bm25", "--timed", "0", "--name", folder.name)
        assert CliRunner().invoke(app, ["retrieval", "--data", str(folder), *sets]).exit_code == 0
    encoder = load_encoder(resolve(Settings(home=home).index.encoder, home))
    with closing(Collection.open(home / "eval" / "collections", "product-gate", encoder)) as collection:
        [badge] = collection.documents()
    assert Path(badge.path).is_relative_to((tmp_path / "second").resolve())


def test_products_are_measured_apart_together_and_by_kind(home: Path, tmp_path: Path) -> None:
    data.product(tmp_path / "data")
    sets = ("--sets", "product-desk,product-gate", "--systems", "typed:bm25,human:variants", "--timed", "0")
    result = retrieval(tmp_path, *sets, "--name", "one")
    assert result.exit_code == 0, result.output
    found = {
        (m.set, m.system, m.part, m.measure): m for m in run_folder.read_run(home / "eval" / "runs" / "one").metrics
    }
    assert found["product", "human:variants", "all", "RR"].n == 3
    assert found["product-gate", "human:variants", "all", "RR"].n == 1
    path = tmp_path / "data" / "product_dialogs" / "dialogs.dev.jsonl"
    pages = str(tmp_path / "data" / "product_docs" / "desk")
    assert CliRunner().invoke(product, ["index", pages, "--collection", "mine"]).exit_code == 0
    words = ["retrieval", "--questions", str(path), "--collection", "mine", "--systems", "typed:rrf"]
    own = CliRunner().invoke(app, [*words, "--name", "own"])
    assert own.exit_code == 0, own.output
    run = run_folder.read_run(home / "eval" / "runs" / "own")
    assert run.notes == ("dialogs.dev: what 1 questions quote is in no passage; left out.",)
    assert {(m.level, m.n) for m in run.metrics if m.part == "all"} == {("passage", 2), ("document", 2)}
