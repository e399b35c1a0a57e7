"""Comparing runs, and reports that open anywhere and run nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from cli.shared.error_handler import ExitCode
from evaluation import report
from evaluation.questions import Question
from evaluation.report import compare
from evaluation.run_folder import EvaluationRun, Latency, create_run, metrics_of
from rewriter.protocol import Conversation, Message
from server.settings import Settings

EVIL = '<script>alert("x")</script>'


def made(root: Path, name: str, good: float, latency: float = 0.02) -> EvaluationRun:
    """A run over 40 questions of 20 dialogs, of one system that gets a share of them right."""
    questions = {
        f"q{n}": Question(
            f"q{n}", f"d{n // 2}", f"question {n} {EVIL}", Conversation((Message("user", EVIL),) * (n % 4)), domain=EVIL
        )
        for n in range(40)
    }
    writer = create_run(root, "retrieval", name)
    scores = {q: {"AP": 1.0 if n < 40 * good else 0.0, "R@5": 0.5} for n, q in enumerate(questions)}
    for system in ("typed:rrf", f"auto:{EVIL}"):
        writer.write_scores("set", system, "passage", scores)
        writer.metrics += metrics_of("set", "passage", system, scores, questions)
        writer.latencies.append(Latency("set", system, latency, latency, 40))
        writer.write_rows(
            ({"id": q, "shown": [f"{name} wrote {EVIL}"]} for q in questions), "set", system, "evidence.jsonl"
        )
    writer.write_rows(
        (
            {"id": q.id, "dialog": q.dialog, "text": q.text, "history": [{"role": "user", "text": "before"}]}
            for q in questions.values()
        ),
        "set",
        "questions.jsonl",
    )
    return writer.finish(Settings(home=root))


def test_a_clear_gain_is_significant_and_names_its_winners(tmp_path: Path) -> None:
    found = compare(made(tmp_path, "a", 0.2), made(tmp_path, "b", 0.9))
    gain = next(d for d in found.differences if d.measure == "AP" and d.system == "typed:rrf")
    assert (gain.before, gain.after, gain.n) == pytest.approx((0.2, 0.9, 40))
    assert gain.low > 0
    assert gain.p_holm < 0.05
    still = next(d for d in found.differences if d.measure == "R@5")
    assert (still.difference, still.p_holm) == (0, 1)
    assert len(found.winners) == 5
    assert not found.losers
    assert found.winners[0].before_evidence == (f"a wrote {EVIL}",)
    assert found.winners[0].asked[0] == "user: before"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_loads_and_runs_nothing_and_escapes_everything(tmp_path: Path) -> None:
    before, after = made(tmp_path, "a", 0.2, 0.5), made(tmp_path, "b", 0.9)
    text = report.html(after, compare(before, after))
    page = Page()
    page.feed(text)
    assert "script" not in page.tags
    assert not page.addresses
    assert not re.search(r"url\(|@import|https?://(?!127\.0\.0\.1)", text)
    assert "default-src 'none'" in text
    assert page.text.count(EVIL) > 5, "hostile text is shown as text"
    assert "Biggest winners" in page.text


def test_the_commands_compare_and_report(tmp_path: Path) -> None:
    before, after = made(tmp_path, "a", 0.9), made(tmp_path, "b", 0.8)
    words = ["eval", "compare", str(before.folder), str(after.folder), "--html", str(tmp_path / "c.html")]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "-0.100" in shown.output
    assert "Loser: set" in shown.output
    assert (tmp_path / "c.html").read_text("utf-8").startswith("<!doctype html>")
    assert CliRunner().invoke(app, [*words, "--fail-under", "-0.05"]).exit_code == ExitCode.GATE
    assert CliRunner().invoke(app, [*words, "--fail-under", "-0.2"]).exit_code == 0
    assert CliRunner().invoke(app, ["eval", "compare", str(tmp_path), str(tmp_path)]).exit_code == ExitCode.NOT_FOUND
