"""Rewrites in batches: what is written, what is not asked again, and what is refused when read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.shared.error_handler import ExitCode, exit_code
from evaluation.batches.rewrites import (
    QueryLine,
    RewriteRecord,
    WrittenRewrites,
    finished,
    in_parallel,
    read_records,
    rewrite_all,
)
from evaluation.errors import EvaluationError, RewriterUnusable
from papers.orconvqa.__main__ import app
from rewriter.protocol import Conversation, Message, Rewrite

HISTORY = Conversation((Message("user", "How do I appeal?"), Message("assistant", "Send form DS-7.")))
QUERIES = [QueryLine("a", HISTORY, "and by fax?"), QueryLine("b", Conversation(), "What is a form?")]


@pytest.fixture
def queries_file(tmp_path: Path) -> Path:
    path = tmp_path / "q.jsonl"
    rows = [
        {
            "id": query.id,
            "history": [{"role": turn.role, "text": turn.text} for turn in query.conversation.messages],
            "text": query.text,
        }
        for query in QUERIES
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def rewrite_command(queries: Path, out: Path, *options: str) -> list[str]:
    return ["rewrite", "--queries", str(queries), "--out", str(out), *options]


def test_the_default_rewriter_widens_follow_ups_and_keeps_first_questions(queries_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "r.jsonl"
    result = CliRunner().invoke(app, rewrite_command(queries_file, out))
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(row["id"], row["text"], row["decision"]) for row in rows] == [
        ("a", "and by fax? appeal form DS-7", "expand"),
        ("b", "What is a form?", "keep"),
    ]
    assert " ".join(term["text"] for term in rows[0]["expansion"]) == "appeal form DS-7"
    assert read_records(out)["a"].rewrite().history_probability == rows[0]["history_probability"]
    assert {"confidence", "alternatives", "reason", "seconds", "rewriter", "question"} <= set(rows[0])
    assert list(out.parent.iterdir()) == [out]


def test_finished_questions_are_not_asked_again(queries_file: Path, tmp_path: Path) -> None:
    kept = RewriteRecord.of(QUERIES[0], Rewrite("Can I send form DS-7 by fax?", "rewrite", seconds=1.5), "none")
    out = tmp_path / "r.jsonl"
    out.with_name("r.jsonl.partial").write_text(kept.line() + '{"id": "b", "torn', encoding="utf-8")
    result = CliRunner().invoke(app, rewrite_command(queries_file, out, "--rewriter", "none"))
    assert result.exit_code == 0, result.output
    assert "1 of 2 questions were finished before" in result.stderr
    assert read_records(out)["a"] == kept
    assert read_records(out)["b"].decision == "keep"
    assert not out.with_name("r.jsonl.partial").exists()


def test_a_changed_question_history_or_rewriter_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(RewriteRecord.of(query, Rewrite("x", "rewrite"), "t5").line() for query in QUERIES))
    assert set(finished(path, QUERIES, "t5")) == {"a", "b"}
    assert not finished(path, QUERIES, "prompted")
    changed = [QueryLine("a", Conversation(), "and by fax?"), QueryLine("b", Conversation(), "What is a page?")]
    assert not finished(path, changed, "t5")


def test_failed_questions_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(RewriteRecord.of(QUERIES[0], Rewrite("and by fax?", "failed", reason="timeout"), "t5").line())
    assert not finished(path, QUERIES, "t5")


def test_without_a_language_model_the_prompted_rewriter_is_refused(queries_file: Path, tmp_path: Path) -> None:
    options = ("--rewriter", "prompted", "--model", "none")
    result = CliRunner().invoke(app, rewrite_command(queries_file, tmp_path / "r.jsonl", *options))
    assert result.exit_code == ExitCode.SETTINGS
    assert "llm.model" in result.stderr
    assert not (tmp_path / "r.jsonl").exists()


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    made = Rewrite("Can I appeal by fax?", "refused", 0.25, ("Fax?", "Ünïcode"), 0.5, "it lost a number")
    path = tmp_path / "r.jsonl"
    path.write_text(RewriteRecord.of(QUERIES[0], made, "t5").line(), encoding="utf-8")
    assert read_records(path)["a"].rewrite() == made


def test_written_rewrites_are_found_by_conversation_and_question() -> None:
    records = {query.id: RewriteRecord.of(query, Rewrite(f"{query.id} alone", "rewrite"), "t5") for query in QUERIES}
    written = WrittenRewrites(QUERIES, records)
    assert written.rewrite(HISTORY, "and by fax?").text == "a alone"
    assert written.rewrite(Conversation(), "What is a form?").text == "b alone"
    with pytest.raises(EvaluationError, match="1 questions have no rewrite, the first is 'b'"):
        WrittenRewrites(QUERIES, {"a": records["a"]})


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "a"}', '{"id": "a", "text": "x", "decision": "maybe"}', '{"id": 1, "text": "x"}']
)
def test_a_bad_record_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("\n" + line)
    with pytest.raises(EvaluationError, match="line 2: "):
        read_records(path)


class SlowRewriter:
    """Takes a moment and remembers how many questions were under way at once."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.lock = threading.Lock()
        self.running = self.most = 0

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
        return Rewrite(question.upper(), "rewrite")


def test_questions_are_rewritten_side_by_side_but_never_too_many() -> None:
    rewriter = SlowRewriter(0.2)
    lines: Sequence[QueryLine] = [QueryLine(str(n), Conversation(), f"question {n}") for n in range(9)]
    made = {line.id: rewrite.text for line, rewrite in in_parallel(rewriter, lines, workers=3, seconds=10)}
    assert made == {str(n): f"QUESTION {n}" for n in range(9)}
    assert rewriter.most == 3


def test_a_rewrite_that_takes_longer_than_a_turn_allows_has_failed() -> None:
    [(_, made)] = in_parallel(SlowRewriter(0.7), [QueryLine("a", HISTORY, "and by fax?")], workers=1, seconds=0.01)
    assert (made.decision, made.text) == ("failed", "and by fax?")


class FailingRewriter:
    """Never has an answer."""

    name = "failing"

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        return Rewrite(question, "failed", reason="nobody there")


def test_a_rewriter_that_only_fails_is_given_up(tmp_path: Path) -> None:
    lines = [QueryLine(str(n), Conversation(), "and by fax?") for n in range(30)]
    path = tmp_path / "r.jsonl.partial"
    with pytest.raises(RewriterUnusable, match="The first 20 questions all failed") as caught:
        rewrite_all(FailingRewriter(), "x", lines, {}, path, workers=2, seconds=5)
    assert exit_code(caught.value) == ExitCode.LLM
    assert not finished(path, lines, "x")
