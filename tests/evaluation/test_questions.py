"""Files of questions: what is read, and how bad lines are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.questions import BadRow, EvaluationError, Quote, question_of_row, read_questions
from rewriter.protocol import Conversation, Message
from tests.evaluation import evaluation_data as data


def test_lines_become_questions_in_their_conversations(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        '\ufeff{"id": "a", "history": [{"role": "user", "text": "How do I pay?"}, '
        '{"role": "assistant", "content": "By card."}], "text": "and by fax?"}\r\n\r\n{"id": 7, "text": "Ünïcode?"}\r\n'
        '{"question": "x", "history": [["How do I pay?", "By card."]], "quotes": ["y", '
        '{"document": "d", "quote": "z"}]}\n',
        encoding="utf-8",
    )
    history = Conversation((Message("user", "How do I pay?"), Message("assistant", "By card.")))
    found = read_questions(path)
    assert [(one.question.id, one.question.conversation, one.question.text) for one in found] == [
        ("a", history, "and by fax?"),
        ("7", Conversation(), "Ünïcode?"),
        ("line-4", history, "x"),
    ]
    assert found[2].quotes == (Quote("", "y"), Quote("d", "z"))


def test_a_dialog_gives_each_of_its_questions(tmp_path: Path) -> None:
    turns = [{"role": "user", "text": "a?"}, {"role": "assistant", "text": "b."}, {"role": "user", "text": "c?"}]
    found = read_questions(data.jsonl(tmp_path / "q.jsonl", [{"dialog_id": "d", "turns": turns}]))
    assert [(one.question.id, one.question.answer) for one in found] == [("d#1", "b."), ("d#3", "")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[1]", "no JSON object"),
        ('{"id": "a b", "text": "x"}', '"id" without white space'),
        ('{"id": "a"}', 'no "text"'),
        ('{"id": "a", "text": " "}', 'no "text"'),
        ('{"id": "good", "text": "again"}', "used before"),
        ('{"id": "a", "text": "x", "relevant": "y"}', "list of ids"),
        ('{"id": "a", "text": "x", "history": "y"}', "not a list"),
        ('{"id": "a", "text": "x", "history": [{"role": "system", "text": "y"}]}', '"role"'),
        ('{"id": "a", "text": "x", "history": [{"role": ["user"], "text": "y"}]}', '"role"'),
        ('{"id": "a", "text": "x", "quotes": [1]}', '"quotes" is not a list of objects'),
        ('{"turns": [{"role": "user", "text": "a?", "evidence": ["leave.md"]}]}', '"evidence" is not a list'),
        ('{"turns": [{"role": "user", "text": "a?", "evidence": [{"document": "leave.md"}]}]}', 'no "quote"'),
        (f"{'[' * 100_000}", "not JSON"),
    ],
)
def test_a_bad_line_is_named_by_number_with_the_remedy(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": "good", "text": "x"}\n\n' + line + "\n")
    with pytest.raises(BadRow) as caught:
        read_questions(path)
    assert "line 3" in str(caught.value)
    assert problem in str(caught.value)
    assert '"history": [{"role": "user"' in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\x00", None])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "q.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EvaluationError, match=r"q\.jsonl"):
        read_questions(path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "text", "history", "role"]), inner),
        max_leaves=12,
    ).filter(lambda value: isinstance(value, dict))
)
def test_any_line_is_a_question_or_a_reasoned_refusal(value: dict[str, object]) -> None:
    try:
        judged = question_of_row(json.loads(json.dumps(value)), 1)
    except BadRow:
        return
    assert judged.question.id
    assert judged.question.text.strip()
