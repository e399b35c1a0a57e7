"""From the chat's edits and ratings to training rows, with a person in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from rewriter.examples import read_examples
from server.store import Database, conversations, feedback, turns
from server.turn.events import RewriteEvent
from tests.rows import ALL, MINE


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose chat has an edited turn, a rated one, and one nobody touched."""
    database = Database(tmp_path / "anaphora.db")

    def fill(connection: object) -> None:
        talk = conversations.create(connection, "docs", MINE).id  # type: ignore[arg-type]
        said = (
            ("first", "How do I renew a permit?", None, "How do I renew a permit?"),
            ("second", "and by fax?", "Can I renew a permit by fax?", "Can I renew a permit by fax?"),
            ("third", "who signs it", None, "who signs the fax"),
        )
        for key, question, search_for, text in said:
            turns.begin(
                connection,  # type: ignore[arg-type]
                turn_id=key, conversation_id=talk, collection="docs", question=question, search_for=search_for,
                regenerate_of=None, title="permits", runner="", whose=MINE,
            )  # fmt: skip
            rewrite = RewriteEvent(
                question=question, text=text, decision="rewrite", rewriter="t5", legs=[], seconds=0.01
            )
            turns.finish(
                connection,  # type: ignore[arg-type]
                key,
                status="answered",
                answer=f"Answer {key}.",
                rewrite=rewrite,
                evidence=None,
                ending=None,
                trace=None,
            )  # fmt: skip
        feedback.give(connection, "third", "down", "wrong", "I meant the permit", ALL)  # type: ignore[arg-type]

    database.write_blocking(fill)
    database.close()
    return tmp_path


def test_edited_and_rated_turns_are_written_for_review(home: Path) -> None:
    out = home / "review.jsonl"
    code, output = anaphora(home, "feedback", "export", str(out))
    assert code == 0, output
    assert "1 edited search texts, 1 rated turns" in output
    edited, rated = map(json.loads, out.read_text("utf-8").splitlines())
    assert (edited["by"], edited["rewrite"], edited["use"]) == ("person", "Can I renew a permit by fax?", None)
    assert [said["text"] for said in edited["history"]] == ["How do I renew a permit?", "Answer first."]
    assert (rated["by"], rated["rating"], rated["comment"]) == ("rewriter", "down", "I meant the permit")
    assert len(rated["history"]) == 4


def test_only_what_a_person_wants_used_becomes_a_row(home: Path) -> None:
    review, out = home / "review.jsonl", home / "rows.jsonl"
    anaphora(home, "feedback", "export", str(review))
    code, output = anaphora(home, "feedback", "rows", str(review), str(out))
    assert code == 3
    assert "No row" in output
    assert not out.exists()
    edited, rated = map(json.loads, review.read_text("utf-8").splitlines())
    edited["use"] = False
    rated |= {"use": True, "rewrite": "Who signs the permit?"}
    review.write_text(f"{json.dumps(edited)}\n{json.dumps(rated)}\n", "utf-8")
    assert anaphora(home, "feedback", "rows", str(review), str(out))[0] == 0
    (example,) = read_examples(out)
    assert (example.question, example.rewrite, example.source) == ("who signs it", "Who signs the permit?", "feedback")
    assert example.needs_rewrite
    assert example.history[0].text == "How do I renew a permit?"


def test_a_review_is_not_overwritten_unasked(home: Path) -> None:
    out = home / "review.jsonl"
    out.write_text("somebody's work", "utf-8")
    code, output = anaphora(home, "feedback", "export", str(out))
    assert code == 3
    assert "there already" in output
    assert out.read_text("utf-8") == "somebody's work"


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"turn_id": "x"}',
        '{"turn_id": "x", "history": [], "question": "q", "rewrite": " ", "by": "person", "use": true}',
    ],
)
def test_a_spoilt_review_names_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "review.jsonl").write_text(f"\n{line}\n", "utf-8")
    code, output = anaphora(tmp_path, "feedback", "rows", str(tmp_path / "review.jsonl"), str(tmp_path / "o.jsonl"))
    assert code == 3
    assert "review.jsonl, line 2" in output


def test_an_adaptation_without_documents_learns_from_reviews_or_says_so(command_home: Path) -> None:
    code, output = anaphora(command_home, "adapt")
    assert code == 3
    assert "--from review" in output
    code, output = anaphora(command_home, "adapt", "--from", "review", "--name", "better", "--collection", "docs")
    assert code != 0
    assert "Fewer than two conversations of this collection were reviewed" in output
    code, output = anaphora(command_home, "adapt", "--from", "review", "--name", "other", "--collection", "nothing")
    assert code == 3
    assert "There is no collection 'nothing'" in output
