"""Examples of rewriting, in every shape they are read from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rewriter.examples import RewriteExample, read_examples, write_examples
from rewriter.protocol import ExampleError, Message
from rewriter.recipe import DataPart

ROW = RewriteExample(
    "d1#3",
    (Message("user", "How do I renew my licence?"), Message("assistant", "Online or by mail.")),
    "and by fax?",
    "Can I renew my licence by fax?",
    "mine",
)


def written(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_rows_come_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert write_examples(path, [ROW, ROW]) == 2
    assert list(read_examples(path)) == [ROW, ROW]
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_a_dialog_gives_an_example_for_every_user_turn_with_a_rewrite(tmp_path: Path) -> None:
    dialog = {
        "dialog_id": "d7",
        "turns": [
            {"role": "user", "text": "What is a permit?", "rewrite": "What is a permit?"},
            {"role": "agent", "text": "A paper."},
            {"role": "user", "text": "uh", "rewrite": None},
            {"role": "assistant", "text": "Pardon?"},
            {"role": "user", "text": "who gives it", "rewrite": "Who gives a permit?"},
        ],
    }
    first, second = read_examples(written(tmp_path / "talk.train.jsonl", dialog))
    assert (first.id, first.history, first.source) == ("d7#1", (), "talk")
    assert not first.needs_rewrite
    assert [turn.text for turn in second.history] == ["What is a permit?", "A paper.", "uh", "Pardon?"]
    assert second.history[1].role == "assistant"
    assert (second.rewrite, second.needs_rewrite, second.dialog) == ("Who gives a permit?", True, "d7")


def test_rows_in_the_manner_of_qrecc_are_read(tmp_path: Path) -> None:
    row = {
        "_id": "1490_4",
        "source": "quac",
        "history": [{"role": "user", "text": "Who was Stan?"}],
        "text": "What happened in 1954?",
        "rewrite": "What happened to Stan in 1954?",
        "answer": "Much.",
    }
    (example,) = read_examples(written(tmp_path / "qrecc.jsonl", row))
    assert (example.id, example.dialog, example.source) == ("1490_4", "1490", "quac")
    assert example.question == "What happened in 1954?"
    assert example.history == (Message("user", "Who was Stan?"),)


@pytest.mark.parametrize(
    ("question", "rewrite", "needs"),
    [
        ("What is it?", "what is it", False),
        ("Is it free ?", "Is the permit free?", True),
        ("¿Cuánto cuesta?", "cuánto  cuesta", False),
        ("它多少钱？", "许可证多少钱？", True),
    ],
)
def test_case_and_punctuation_are_no_rewrite(question: str, rewrite: str, needs: bool) -> None:
    assert RewriteExample("x", (), question, rewrite).needs_rewrite is needs


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{nonsense", "is no JSON"),
        ("[1]", "holds list"),
        ('{"id": "x"}', "neither"),
        ('{"id": "x", "question": "a"}', "has no `rewrite`"),
        ('{"id": "x", "question": " ", "rewrite": "b"}', "has no `question`"),
        ('{"question": "a", "rewrite": "b", "history": "c"}', "must be a list"),
        ('{"question": "a", "rewrite": "b", "history": [{"role": "dog", "text": "c"}]}', "history 1 needs a `role`"),
        ('{"dialog_id": "d", "turns": [{"role": "user", "text": 3}]}', "turn 1 has no `text`"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "a", "rewrite": "a"}\n\n' + line + "\n", "utf-8")
    with pytest.raises(ExampleError, match=says) as raised:
        list(read_examples(path))
    assert "rows.jsonl, line 3" in str(raised.value)


def test_a_file_that_is_cut_off_or_missing_is_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "rows.jsonl.gz"
    write_examples(whole, [ROW] * 50)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(ExampleError, match="cannot be read"):
        list(read_examples(cut))
    with pytest.raises(ExampleError, match="cannot be read"):
        list(read_examples(tmp_path / "none.jsonl"))
    noise = tmp_path / "noise.jsonl"
    noise.write_bytes(gzip.compress(b"x"))
    with pytest.raises(ExampleError, match="cannot be read"):
        list(read_examples(noise))


@pytest.mark.parametrize(("name", "least"), [("train", 2000), ("dev", 200)])
def test_the_packaged_dialogs_are_examples(name: str, least: int) -> None:
    examples = list(read_examples(DataPart(path=f"packaged:dialogs.{name}.jsonl").file(Path("elsewhere"))))
    assert len(examples) > least
    assert len({example.id for example in examples}) == len(examples)
    follow_ups = [example for example in examples if example.history]
    assert sum(example.needs_rewrite for example in follow_ups) > 0.7 * len(follow_ups)
    assert all(example.needs_rewrite for example in follow_ups if example.kind in ("pronoun", "ellipsis", "far"))
    assert all(example.evidence for example in examples if example.answerability == "answerable")
    assert {example.dialog.rpartition("-")[0] for example in examples} >= (
        {"pi-hole"} if name == "dev" else {"traefik"}
    )
