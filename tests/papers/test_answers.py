"""Answers measured over the turn's own events: journal, text measures, citations, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evaluation import run_folder
from evaluation.answers import AnsweredTurn
from evaluation.questions import Question
from evaluation.sets import JudgedLevel
from papers.datasets import DataSet
from papers.orconvqa.__main__ import app
from papers.orconvqa.answers import measure, read_journal
from server.settings import Settings
from tests.evaluation import evaluation_data as data
from tests.openai_server import FakeOpenAIServer


def turn(name: str, status: str, answer: str = "", **more: Any) -> AnsweredTurn:
    fields: dict[str, Any] = {
        "searched": "x",
        "passages": (),
        "citations": (),
        "support": (),
        "seconds": {"first_token": 0.5, "total": 2.0},
        "tokens": {"completion": 7},
    }
    return AnsweredTurn(id=name, question=name, status=status, answer=answer, **{**fields, **more})


PASSAGE = {
    "n": 1, "passage_id": "p1", "document_id": "d", "title": "Leave", "heading": [], "start": 0, "end": len(data.LEAVE),
    "text": data.LEAVE, "score": 1.0,
}  # fmt: skip


@pytest.fixture
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAPHORA_REWRITER__KIND", "none")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    data.mtrag(tmp_path / "data")
    return home


def answers(tmp_path: Path, url: str, *options: str) -> Any:
    words = ["answers", "--sets", "mtrag-offices", "--data", str(tmp_path / "data"), "--model", url]
    return CliRunner().invoke(app, [*words, "--name", "one", *options])


def test_own_answers_are_the_history(home: Path, llm: FakeOpenAIServer, tmp_path: Path) -> None:
    for options, own in (((), False), (("--own-answers", "--every", "2"), True)):
        llm.requests.clear()
        assert answers(tmp_path, llm.url, *options, "--name", f"own-{own}").exit_code == 0
        told = {m["content"] for request in llm.requests for m in request["messages"] if m["role"] == "assistant"}
        assert any(text.startswith("Parental leave lasts ten weeks.") for text in told) == own, told
    asked = read_journal(home / "eval" / "runs" / "own-True" / "mtrag-offices" / "turns.jsonl")
    assert {*asked} == {"d1::1", "d1::2"}, "every second dialog, as a whole"


def test_an_evaluation_that_was_stopped_goes_on(home: Path, llm: FakeOpenAIServer, tmp_path: Path) -> None:
    first = answers(tmp_path, llm.url, "--minutes", "0.0001")
    assert first.exit_code == 0, first.output
    assert "questions are left" in first.output
    journal = home / "eval" / "runs" / "one" / "mtrag-offices" / "turns.jsonl"
    before = json.dumps(asdict(turn("d1::1", "answered", "Known already."))) + "\n"
    journal.write_text(before + '{"id": "torn')
    second = answers(tmp_path, llm.url)
    assert second.exit_code == 0, second.output
    assert journal.read_text("utf-8").startswith(before), "what was answered is not asked again"
    assert len(read_journal(journal)) == 5
    traces = [json.loads(line) for line in journal.with_suffix(".traces.jsonl").read_text("utf-8").splitlines()]
    assert "d1::1" not in {one["id"] for one in traces}
    assert all(one["calls"][0]["parent"] is None for one in traces)
    assert {"turn", "search", "generate"} <= {call["name"] for call in traces[0]["calls"]}
    run = run_folder.read_run(home / "eval" / "runs" / "one")
    found = {(m.level, m.measure): m for m in run.metrics if m.part == "all"}
    assert found["turn", "refused"].mean == 0
    assert found["turn", "refusal recall"].mean == 0
    assert found["turn", "false refusals"].mean == 0
    assert found["answer", "SacreBLEU"].n == 4, "the unanswerable question has no right answer"
    assert any("nrefs:1" in note for note in run.notes)
    assert run_folder.read_run(run.folder).scores("mtrag-offices", run.metrics[0].system, "turn")


def test_refusals_and_citations_are_counted(tmp_path: Path) -> None:
    answer = "Parental leave lasts ten weeks. [1] It is paid in gold. [1]"
    support = (
        {"answer_start": 0, "answer_end": 31, "cited": [1], "score": 0.9, "supported": True},
        {"answer_start": 35, "answer_end": 55, "cited": [1], "score": 0.1, "supported": False},
    )
    cited = (
        {"n": 1, "passage_id": "p1", "at": 32, "attributed": False, "place": ("d1", 30, 80)},
        {"n": 1, "passage_id": "p1", "at": 56, "attributed": True, "place": ("d1", 10, 31)},
    )
    questions = (
        Question("a", "d1", "how long?", answer="Ten weeks.", answerability="answerable"),
        Question("b", "d2", "who?", answer="?", answerability="unanswerable"),
        Question("c", "d3", "where?", answer="Here.", answerability="answerable"),
        Question("d", "d4", "when?", answer="?", answerability="unanswerable"),
        Question("e", "d4", "that one?", answer="?", answerability="underspecified"),
        Question("f", "d5", "and now?", answer="So.", answerability="partial"),
    )
    chosen = DataSet("set", questions, (JudgedLevel("passage", {"a": {"p1": 1}}),))
    turns = {
        "a": turn("a", "answered", answer, passages=(PASSAGE,), citations=cited, support=support),
        "b": turn("b", "refused"),
        "c": turn("c", "refused"),
        "d": turn("d", "error"),
        "e": turn("e", "asked"),
        "f": replace(turn("f", "quoted", "So. [1]"), doubted=True),
    }
    writer = run_folder.create_run(tmp_path, "answers", "x")
    measure(chosen, {"a": [("d1", 0, 40)], "c": [("d1", 50, 60)]}, "model", turns, writer, None)
    run = writer.finish(Settings(home=tmp_path))
    found = {(m.level, m.measure): m.mean for m in run.metrics if m.part == "all"}
    assert found["turn", "refusal precision"] == 0.5
    assert found["turn", "refusal recall"] == 1.0
    assert found["turn", "false refusals"] == pytest.approx(1 / 3)
    outcomes = ("refused", "asked back", "doubted", "sure")
    assert [found["answerable", name] for name in outcomes] == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert [found["unanswerable", name] for name in outcomes] == [1, 0, 0, 0]
    assert [found["underspecified", name] for name in outcomes] == [0, 1, 0, 0]
    assert found["evidence", "shown"] == 0.5, "the second citation lies within its place"
    assert found["evidence", "shown and sure"] == 0.5
    assert found["citation", "citation precision"] == 0.5
    assert found["citation", "citation recall"] == 0.5
    assert found["citation", "cites what is labelled"] == 1.0
    assert found["citation", "cited by the model"] == 0.5
    assert any("1 turns ended in an error" in note for note in run.notes)
    assert math.isnan(next(m for m in run.metrics if m.measure == "SacreBLEU").low)
