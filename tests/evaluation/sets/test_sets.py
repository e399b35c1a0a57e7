"""Data sets of every known shape become questions, judgements and a corpus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evaluation.errors import BadRow, MissingSet
from evaluation.sets import load_set, load_sets
from evaluation.sets.base import EvalSet, Question, slices
from evaluation.sets.beir import own_questions
from tests.evaluation import evaluation_data as data


def test_mtrag_keeps_what_nobody_could_answer_but_does_not_judge_it(tmp_path: Path) -> None:
    data.mtrag(tmp_path)
    found = load_set("mtrag-offices", tmp_path)
    assert [q.answerability for q in found.questions].count("unanswerable") == 1
    assert (len(found.questions), len(found.judged)) == (5, 4)
    second = found.questions[1]
    assert (second.id, second.depth, second.answer) == ("d1::2", 2, "Ten weeks.")
    assert second.needs_rewrite
    assert not found.questions[0].needs_rewrite
    assert "needs rewriting" in slices(second)
    assert [level.name for level in found.levels] == ["passage", "document"]


def test_units_of_doc2dial_are_judged_by_the_same_sections(tmp_path: Path) -> None:
    data.doc2dial(tmp_path)
    for name, unit in (
        ("doc2dial", "section"),
        ("doc2dial-spans", "sentence"),
        ("doc2dial-propositions", "proposition"),
    ):
        found = load_set(name, tmp_path)
        assert found.unit == unit
        section = next(level for level in found.levels if level.name == "section")
        assert section.qrels["q2"] == {"leave::sec1": 1}
    assert section.parents["p1"] == ("leave::sec1",)
    assert found.corpus is not None
    assert len(found.corpus) == 4, "propositions of other documents are left out"  # type: ignore[arg-type]
    assert found.questions[1].domain == "hr"


def test_written_dialogs_need_no_rewrite_everywhere(tmp_path: Path) -> None:
    data.doc2dial(tmp_path)
    found = load_set("synthetic", tmp_path)
    assert [q.rewrite for q in found.questions] == ["", "Which form is for leave?"]
    assert load_set(f"synth:{tmp_path / 'synthetic'}", None).questions == found.questions


@pytest.mark.parametrize("several", [True, False])
def test_published_files_are_read_as_they_are(tmp_path: Path, several: bool) -> None:
    found = load_set(f"doc2dial-json:{data.original(tmp_path / 'a', several=several)}", None)
    assert [q.id for q in found.questions] == ["abc_1"], "thanks are no question: nothing grounds the answer"
    assert found.levels[0].qrels == {"abc_1": {"leave#1::sec1": 1}}
    assert found.levels[1].qrels == {"abc_1": {"leave#1": 1}}
    assert isinstance(found.corpus, tuple)
    assert [row["_id"] for row in found.corpus] == ["leave#1::sec0", "leave#1::sec1"]


def test_a_beir_folder_judges_documents_through_their_passages(tmp_path: Path) -> None:
    data.corpus(tmp_path / "b" / "corpus.jsonl")
    data.jsonl(tmp_path / "b" / "queries.jsonl", [{"_id": "1", "text": "fax?", "metadata": {"history": []}}])
    data.qrels(tmp_path / "b" / "qrels.tsv", [("1", "leave::sec1")])
    found = load_set(f"beir:{tmp_path / 'b'}", None)
    assert found.levels[1].qrels == {"1": {"leave": 1}}


def test_own_questions_may_be_judged_by_document_only(tmp_path: Path) -> None:
    path = data.jsonl(tmp_path / "mine.jsonl", [{"id": "1", "text": "fax?", "documents": ["leave.md"]}])
    found = own_questions(path)
    assert found.corpus is None
    assert [level.name for level in found.levels] == ["document"]


def test_a_missing_set_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match=r"doc2dial\.github\.io"):
        load_set("doc2dial", tmp_path)
    with pytest.raises(MissingSet, match="mt-rag-benchmark"):
        load_set("mtrag-cloud", tmp_path)
    with pytest.raises(MissingSet, match="--data"):
        load_set("doc2dial", None)
    with pytest.raises(MissingSet, match="known are"):
        load_set("squad", tmp_path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "no JSON object"),
        ('{"text": "x"}', '"id"'),
        ('{"id": "a b", "text": "x"}', '"id"'),
        ('{"id": "2", "text": " "}', '"text"'),
        ('{"id": "2", "text": "x", "history": [{"role": "king", "text": "x"}]}', "role"),
        ('{"id": "2", "text": "x", "relevant": "y"}', "list of ids"),
        ('{"id": "1", "text": "again"}', "used before"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "1", "text": "x", "relevant": ["a"]}\n' + line + "\n", "utf-8")
    with pytest.raises(BadRow, match=complaint):
        own_questions(path)


def test_dialogs_over_products_are_read_by_product_with_what_they_quote(tmp_path: Path) -> None:
    data.product(tmp_path)
    found = load_set("product-desk", tmp_path)
    assert [(q.kind, q.answerability, q.depth) for q in found.questions] == [
        ("first", "answerable", 1),
        ("ellipsis", "answerable", 2),
        ("pronoun", "unanswerable", 3),
    ]
    assert {"kind ellipsis", "answerability answerable", "turn 2", "needs rewriting"} <= set(slices(found.questions[1]))
    assert found.judged == found.questions[:2], "nobody could answer the third"
    assert found.corpus == tmp_path / "product_docs" / "desk"
    assert [one.name for one in load_sets(["product-desk", "product-desk"], tmp_path, every=2)] == ["product-desk"]
    with pytest.raises(MissingSet, match="documentation of uv"):
        load_sets(["product-*"], tmp_path)
    with pytest.raises(MissingSet, match="documentation of moon"):
        load_set("product-moon", tmp_path)


@pytest.mark.parametrize("evidence", ["leave.md", ["leave.md"], [{"document": "leave.md"}]])
def test_evidence_of_another_shape_names_its_line(tmp_path: Path, evidence: object) -> None:
    turn = {"role": "user", "text": "a?", "evidence": evidence}
    path = data.jsonl(tmp_path / "q.jsonl", [{"dialog_id": "d", "turns": [turn]}])
    with pytest.raises(BadRow, match=r"line 1, turn 1.*(evidence|quote)"):
        own_questions(path)


def test_a_share_of_the_answerable_questions_is_drawn_alike_each_time() -> None:
    marks = ("answerable", "unanswerable", "partial", "")
    questions = tuple(Question(f"q{n}", "d", "?", answerability=marks[n % 4]) for n in range(400))
    drawn = EvalSet("s", "passage", None, questions).drawn(0.2)
    assert drawn == EvalSet("s", "passage", None, questions).drawn(0.2)
    counts = Counter(question.answerability for question in drawn.questions)
    assert [counts[mark] for mark in marks[1:]] == [100, 100, 100]
    assert 10 <= counts["answerable"] <= 30
    assert drawn.drawn(1) == drawn
