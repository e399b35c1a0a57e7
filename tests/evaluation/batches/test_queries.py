"""Query files: what is read, and how bad lines are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.batches.rewrites import QueryLine, parse, read_queries
from evaluation.errors import EvaluationError
from rewriter.protocol import Conversation, Message


def test_lines_become_questions_in_their_conversations(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        '\ufeff{"id": "a", "history": [{"role": "user", "text": "How do I pay?"}, '
        '{"role": "assistant", "text": "By card."}], "text": "and by fax?"}\r\n\r\n{"id": 7, "text": "Ünïcode?"}\r\n',
        encoding="utf-8",
    )
    history = Conversation((Message("user", "How do I pay?"), Message("assistant", "By card.")))
    assert read_queries(path) == [QueryLine("a", history, "and by fax?"), QueryLine("7", Conversation(), "Ünïcode?")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"text": "x"}', 'no "id"'),
        ('{"id": "a b", "text": "x"}', "white space"),
        ('{"id": "a"}', 'no "text"'),
        ('{"id": "a", "text": " "}', "empty"),
        ('{"id": "a", "text": "x", "history": "y"}', "not a list"),
        ('{"id": "a", "text": "x", "history": [{"role": "system", "text": "y"}]}', "'system'"),
        ('{"id": "a", "text": "x", "history": [{"role": "user"}]}', "turn 1"),
        ('{"id": "a", "text": "x", "history": [{"role": ["user"], "text": "y"}]}', "role"),
    ],
)
def test_a_bad_line_is_named_by_number_with_the_remedy(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "good", "text": "x"}\n\n' + line + "\n")
    with pytest.raises(EvaluationError) as caught:
        read_queries(path)
    assert "line 3: " in str(caught.value)
    assert problem in str(caught.value)
    assert '"history": [{"role": "user"' in str(caught.value)


def test_many_bad_lines_are_counted_and_the_first_ten_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("nonsense\n" * 25)
    with pytest.raises(EvaluationError, match=r"25 bad lines: line 1: .*line 10: .*; and 15 more"):
        read_queries(path)


def test_an_id_stands_only_once(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    with pytest.raises(EvaluationError, match="line 2: its id 'a' stands in line 1 already"):
        read_queries(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\x00"])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(content)
    with pytest.raises(EvaluationError, match=r"q\.jsonl"):
        read_queries(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="There is no file"):
        read_queries(tmp_path / "q.jsonl")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "text", "history", "role"]), inner),
        max_leaves=12,
    )
)
def test_any_line_is_a_question_or_a_reasoned_refusal(value: object) -> None:
    try:
        query = parse(json.dumps(value))
    except ValueError:
        return
    assert query.id
    assert query.text.strip()
