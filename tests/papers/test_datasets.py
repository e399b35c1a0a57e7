"""Data sets of every known shape become questions, judgements and a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.questions import MissingSet
from evaluation.sets import placed, slices
from index.collection import Collection
from index.indexer import index_paths
from papers.datasets import load_set, load_sets
from tests.encoder import WordEncoder
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


def test_sections_of_doc2dial_are_judged(tmp_path: Path) -> None:
    data.doc2dial(tmp_path)
    found = load_set("doc2dial", tmp_path)
    assert [level.name for level in found.levels] == ["section", "document"]
    assert found.levels[0].qrels["q2"] == {"leave::sec1": 1}
    assert found.questions[1].domain == "hr"


def test_a_beir_folder_judges_documents_through_their_passages(tmp_path: Path) -> None:
    data.corpus(tmp_path / "b" / "corpus.jsonl")
    data.jsonl(tmp_path / "b" / "queries.jsonl", [{"_id": "1", "text": "fax?", "metadata": {"history": []}}])
    data.qrels(tmp_path / "b" / "qrels.tsv", [("1", "leave::sec1")])
    found = load_set(f"beir:{tmp_path / 'b'}", None)
    assert found.levels[1].qrels == {"1": {"leave": 1}}


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


def test_the_passages_of_a_collection_are_judged_by_the_quotes(tmp_path: Path) -> None:
    data.product(tmp_path)
    encoder, judged = WordEncoder(), {}
    for product in ("desk", "gate"):
        chosen = load_set(f"product-{product}", tmp_path)
        index_paths(tmp_path / "home", product, [chosen.corpus], encoder)  # type: ignore[list-item]
        collection = Collection.open(tmp_path / "home", product, encoder)
        found = placed(chosen, collection)
        passages, documents = found.levels
        texts = {one.id: one.text for info in collection.documents() for one in collection.passages(info.id)}
        judged |= {
            question: (texts[next(iter(names))], *documents.qrels[question])
            for question, names in passages.qrels.items()
        }
        collection.close()
    assert judged["d1#1"] == (data.LEAVE, "desk/leave.md"), "the folder of the product is not part of the id"
    assert judged["d1#3"] == (data.FORM, "desk/leave.md")
    assert "lost badge" in judged["d2#1"][0]
    assert judged["d2#1"][1] == "badge.rst"
