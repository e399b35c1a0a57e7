"""A file of dialogs is checked line by line: form, quotes, and rewrites that stand alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.shared.error_handler import ExitCode
from papers.orconvqa.__main__ import app
from papers.orconvqa.checking import folder_texts
from papers.orconvqa.checking import remarks as remarked
from tests.evaluation import evaluation_data as data


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    data.product(tmp_path)
    return tmp_path / "product_docs"


def remarks(tmp_path: Path, pages: Path, *turns: dict[str, Any], **dialog: object) -> list[str]:
    path = data.jsonl(tmp_path / "f.jsonl", [{"dialog_id": "d", "turns": turns} | dialog])
    return [str(one).partition("line 1")[2] for one in remarked(path, folder_texts(pages))]


def test_what_is_right_is_passed_over(tmp_path: Path, pages: Path) -> None:
    path = tmp_path / "product_dialogs" / "dialogs.dev.jsonl"
    assert list(remarked(path, folder_texts(pages))) == []
    result = CliRunner().invoke(app, ["check", str(path), "--docs", str(pages)])
    assert result.exit_code == 0, result.output
    assert "no error, 0 warnings" in result.output


def test_the_example_of_the_documentation_is_right(tmp_path: Path, pages: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "lab" / "evaluation.md").read_text("utf-8")
    example = next(block for block in text.split("```json\n")[1:] if block.startswith('{"dialog_id"')).partition("```")[
        0
    ]
    path = data.jsonl(tmp_path / "example.jsonl", [json.loads(example)])
    assert list(remarked(path, folder_texts(pages / "desk" / "desk"))) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rewrite": "By fax??"}, "turn 3: error: the rewrite does not stand alone: it is what was typed"),
        ({"rewrite": " "}, 'turn 3: error: there is no "rewrite"'),
        ({"rewrite": "Is it free?"}, "turn 3: warning: the rewrite may not stand alone: 'it'"),
        ({"kind": "elipsis"}, "turn 3: error: the kind 'elipsis' is not one of"),
        ({"kind": "standalone"}, "turn 3: warning: the rewrite differs from what was typed"),
        ({"answerability": None}, 'turn 3: error: there is no "answerability"'),
        ({"answerability": "unanswerable"}, "turn 3: error: 'unanswerable' with 1 quotes"),
        ({"evidence": []}, "turn 3: error: 'answerable' with 0 quotes"),
        ({"evidence": None}, 'turn 3: error: there is no "evidence"'),
        ({"evidence": [{"document": "desk/no.md", "quote": "x"}]}, "turn 3: error: evidence 1: there is no document"),
        ({"evidence": [{"document": "../a.md", "quote": "x"}]}, "turn 3: error: evidence 1: there is no document"),
        ({"evidence": ["quote"]}, 'turn 3: error: evidence 1 needs a "document"'),
        ({"text": ""}, 'turn 3: error: the "text" is empty'),
        ({"role": "bot"}, 'turn 3: error: the "role" is neither'),
        ({"role": "assistant"}, "turn 3: warning: two messages of the assistant"),
    ],
)
def test_every_fault_is_named_with_its_turn(
    tmp_path: Path, pages: Path, changes: dict[str, object], expected: str
) -> None:
    first = data.quoted("How long is leave?", "How long is leave?", "first", "desk/desk/leave.md", "ten weeks")
    turn = data.quoted("by fax?", "May the form go by fax?", "ellipsis", "desk/desk/leave.md", "sent by fax")
    (remark,) = remarks(tmp_path, pages, first, {"role": "assistant", "text": "Ten weeks."}, turn | changes)
    assert remark.startswith(f", {expected}")


def test_a_quote_stands_character_by_character_or_only_by_its_words(tmp_path: Path, pages: Path) -> None:
    def of(quote: str) -> list[str]:
        return remarks(tmp_path, pages, data.quoted("Badge?", "Badge?", "first", "gate/badge.rst", quote))

    assert of("A *lost badge* must") == []
    assert "warning: evidence 1: only its words stand" in of("a LOST badge, must")[0]
    assert "error: evidence 1: the quote does not stand" in of("A found badge must")[0]


def test_dialogs_need_turns_and_names_of_their_own(tmp_path: Path, pages: Path) -> None:
    assert remarks(tmp_path, pages, turns=[]) == [': error: there are no "turns"']
    turn = data.quoted("fax?", "Is a fax fine?", "pronoun")
    assert remarks(tmp_path, pages, turn, dialog_id=1) == [
        ': error: there is no "dialog_id"',
        ", turn 1: error: a first message cannot refer back: kind 'pronoun'",
    ]
    greeting = data.quoted("hi", "hi", "greeting")
    path = data.jsonl(tmp_path / "twice.jsonl", [{"dialog_id": "d", "turns": [greeting]}] * 3)
    result = CliRunner().invoke(app, ["check", str(path), "--docs", str(pages)])
    assert result.exit_code == ExitCode.BAD_INPUT
    assert result.output.count("was used before") == 1
    assert "1 errors, 0 warnings" in result.output
