"""`anaphora diagnose`: faults planted at each stage of a real pipeline are found there; a killed run goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import app
from evaluation.diagnosis import held_in, read_gold
from evaluation.questions import BadRow
from evaluation.run_folder import read_run
from server.access import LOCAL
from server.store import Database, reviewed
from tests.eventually import eventually
from tests.openai_server import FakeOpenAIServer

LEAVE = {
    "id": "leave",
    "question": "How long does parental leave last?",
    "answer": "It lasts ten weeks.",
    "quotes": ["Parental leave lasts ten weeks."],
}
FAX: dict[str, Any] = {
    "id": "fax",
    "question": "and by fax?",
    "history": [{"question": "How do I apply for parental leave?", "answer": "With form PL-7."}],
    "rewrite": "May form PL-7 be sent by fax?",
    "answer": "Yes, to the number 555-0199.",
    "quotes": [{"document": "leave.md", "quote": "The form may also be sent by fax to the number 555-0199."}],
}
POOL = {
    "id": "pool",
    "question": "When is the staff pool open?",
    "answer": "In the summer months.",
    "quotes": ["The staff pool is open in the summer months."],
}
BADGE = {
    "id": "badge",
    "question": "My travel badge for train tickets and taxi rides is gone: how soon must that be reported?",
    "answer": "Within one hour.",
    "quotes": ["A lost badge must be reported within one hour."],
}
MAYOR = {"id": "mayor", "question": "How long does the mayor's parental leave last?", "answer": None}

Diagnose = Callable[..., tuple[Path, list[dict[str, Any]]]]


@pytest.fixture
def diagnose(command_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    """Runs the command over rows; the folder it wrote, and the failures in it."""
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")

    def run(*rows: dict[str, Any], model: str = "none", code: int = 0) -> tuple[Path, list[dict[str, Any]]]:
        gold, out = tmp_path / "gold.jsonl", tmp_path / "report"
        gold.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = CliRunner().invoke(app, ["diagnose", str(gold), "-c", "docs", "--out", str(out), "--model", model])
        assert result.exit_code == code, result.output
        lines = (out / "failures.jsonl").read_text().splitlines() if not code else []
        return out, [json.loads(line) for line in lines]

    return run


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    return [(row["id"], row["stage"], row["confirmed"]) for row in rows]


def speaking(answer: str, rewrite: str = "KEEP") -> Callable[[dict[str, Any]], list[str]]:
    """A model that rewrites and answers by a script."""
    return lambda request: [rewrite if "search queries" in request["messages"][0]["content"] else answer]


def test_a_document_left_out_of_the_index_is_a_fault_of_extraction(diagnose: Diagnose, tmp_path: Path) -> None:
    out, rows = diagnose(LEAVE, POOL)
    assert told(rows) == [("pool", "extraction", True)]
    assert rows[0]["label"] == "false negative"
    assert rows[0]["trace"]
    shown = json.loads(CliRunner().invoke(app, ["trace", "show", rows[0]["trace"], "--json"]).stdout)
    assert shown["calls"][0]["inputs"]["question"] == POOL["question"]

    # Nobody asked these: they are in no count of what people asked.
    database = Database(tmp_path / "home" / "anaphora.db")
    assert database.read_blocking(lambda connection: reviewed.days(connection, LOCAL, "", 0.0)) == []
    database.close()

    run = read_run(out)
    assert run.kind == "diagnosis"
    assert {one.measure: one.mean for one in run.metrics if one.part == "all"}["right"] == 0.5
    assert run.scores("gold", "none", "turn")["pool"]["extraction"] == 1
    assert "When is the staff pool open?" in (out / "report.html").read_text()


def test_a_rewriter_that_spoils_a_follow_up_is_a_fault_of_rewriting(
    diagnose: Diagnose, llm: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_REWRITER__KIND", "prompted")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__EVIDENCE", "1")
    nothing = "{ lexical = 0, dense = 0 }"
    profile = tmp_path / "profile.toml"
    profile.write_text(
        "[variants]\n"
        + "".join(f"{variant} = {nothing}\n" for variant in ("exchange", "opening", "conversation", "typed"))
    )
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__PROFILE", str(profile))

    def pieces(request: dict[str, Any]) -> list[str]:
        system, asked = request["messages"][0]["content"], request["messages"][-1]["content"]
        if "search queries" in system:
            return ["REWRITE: Are train tickets refunded by fax?"]
        return ["Yes, by fax to 555-0199. [1]" if "555-0199" in asked else "<cannot_answer>"]

    llm.pieces = pieces
    before = {"question": "Are train tickets refunded?", "answer": "In full within thirty days."}
    _, rows = diagnose(FAX | {"history": [before, *FAX["history"]]}, model=llm.url)
    assert told(rows) == [("fax", "rewriting", True)]
    assert rows[0]["search_question"] == "Are train tickets refunded by fax?"


def test_a_setting_that_drops_the_right_passage_is_a_fault_of_selection(
    diagnose: Diagnose, llm: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__EVIDENCE", "1")

    def pieces(request: dict[str, Any]) -> list[str]:
        asked = request["messages"][-1]["content"]
        return ["Within one hour. [1]" if "one hour" in asked else "<cannot_answer>"]

    llm.pieces = pieces
    _, rows = diagnose(BADGE, model=llm.url)
    assert told(rows) == [("badge", "selection", True)]


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("<cannot_answer>", "false negative"),
        ("Fathers get 99 days of holiday on the moon with full pay. [1]", "hallucination"),
        *(
            pytest.param(*case, marks=pytest.mark.extended)
            for case in (
                ("Parental leave may be taken in two parts. [1]", "missing detail"),
                ("Apply with form PL-7 at the personnel office. [2]", "wrong question"),
            )
        ),
    ],
)
def test_a_model_that_answers_wrongly_is_a_fault_of_generation(
    diagnose: Diagnose, llm: FakeOpenAIServer, said: str, label: str
) -> None:
    llm.pieces = speaking(said)
    _, rows = diagnose(LEAVE | {"answer": "It lasts ten weeks and may be taken in two parts."}, model=llm.url)
    assert told(rows) == [("leave", "generation", True)]
    assert rows[0]["label"] == label


def test_what_is_answered_and_should_be_refused_is_a_false_positive(diagnose: Diagnose, llm: FakeOpenAIServer) -> None:
    llm.pieces = speaking("Parental leave lasts ten weeks. [1]")
    out, rows = diagnose(MAYOR | {"question": "<script>alert(1)</script> parental *leave*?"}, LEAVE, model=llm.url)
    assert told(rows) == [("mayor", "generation", True)]
    assert rows[0]["label"] == "false positive"
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search(r"(?:src|href|url)\s*[=(]", page), "it opens without internet"


@pytest.mark.extended
def test_a_killed_run_goes_on_and_asks_nothing_twice(
    diagnose: Diagnose, llm: FakeOpenAIServer, tmp_path: Path, command_home: Path
) -> None:
    rows = [LEAVE | {"id": f"q{n}", "question": f"How long does parental leave number {n} last?"} for n in range(8)]
    gold, out = tmp_path / "gold.jsonl", tmp_path / "report"
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows))
    llm.pace = 0.1
    command = ["diagnose", str(gold), "-c", "docs", "--out", str(out), "--model", llm.url]
    running = subprocess.Popen(
        [sys.executable, "-c", "from cli import main; main()", *command], env={**os.environ}, stderr=subprocess.DEVNULL
    )
    kept = out / "gold" / "asked.jsonl"
    try:
        eventually(lambda: kept.is_file() and kept.read_text().count("\n") >= 2)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    finished = {json.loads(line)["row"]["question"] for line in kept.read_text().split("\n")[:-1]}
    assert len(finished) >= 2
    llm.pace = 0
    _, failed = diagnose(*rows, model=llm.url)
    assert failed == []
    asked = Counter(
        next(row["question"] for row in rows if row["question"] in request["messages"][-1]["content"])
        for request in llm.requests
        if "How long" in request["messages"][-1]["content"]
    )
    assert {question: asked[question] for question in finished} == dict.fromkeys(finished, 1)
    assert asked.keys() == {row["question"] for row in rows}

    before = len(llm.requests)
    diagnose(*rows, model=llm.url)
    assert len(llm.requests) == before, "a finished run is only written again"
    diagnose(*rows, model="none", code=3)


@pytest.mark.extended
def test_a_model_that_is_away_ends_the_run_and_keeps_it(
    diagnose: Diagnose, llm: FakeOpenAIServer, tmp_path: Path
) -> None:
    rows = [LEAVE | {"id": str(n)} for n in range(5)]
    llm.status = 500
    diagnose(*rows, model=llm.url, code=3)
    llm.status = 200
    assert diagnose(*rows, model=llm.url)[1] == []
    (tmp_path / "report" / "plan.json").unlink()
    diagnose(*rows, model=llm.url, code=3)


def test_bad_rows_are_named_by_line(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(
        '{"question": "a?"}\n\n{"answer": "b"}\nrubbish\n{"question": "c?", "answer": 3}\n'
        '{"question": "e?", "history": [{"role": "cat", "text": "miaow"}]}\n'
        '{"question": "f?", "quotes": [{"document": "f.md"}]}\n{"question": "g?", "id": "line-1"}\n'
    )
    with pytest.raises(BadRow) as wrong:
        read_gold(gold)
    said = str(wrong.value)
    for number, what in enumerate(("text", "JSON", "answer", "role", "quote", "used before"), 3):
        assert what in said.partition(f"line {number}")[2].partition(";")[0]
    gold.write_text('{"question": "d?", "documents": ["d.md"]}')
    with pytest.raises(BadRow, match="neither"):
        read_gold(gold)
    gold.write_text(
        '{"question": "a?", "history": [["b?", "c"], {"role": "user", "content": "d"}], "evidence": [{"quote": "e"}]}'
    )
    [row] = read_gold(gold)
    assert [one.text for one in row.question.conversation.messages] == ["b?", "c", "d"]
    assert (row.question.id, row.question.answerability, row.quotes[0].text) == ("line-1", "answerable", "e")


def test_words_of_the_question_are_no_answer() -> None:
    assert held_in("The pool is open in summer.", "The pool is open.", context="When is the pool open?") == 0
    assert held_in("The pool is open in summer.", "In summer it is.", context="When is the pool open?") == 1
    assert held_in("10 weeks", "9 weeks") == 0
    assert held_in("It lasts ten weeks.", "The leave lasts 10 weeks.") > 0.6
