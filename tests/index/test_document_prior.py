"""Which documents a conversation is about, and what that does to a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.collection import Collection
from index.documents import Query
from index.indexer import index_paths
from index.ranking import PLAIN_PLACES, document_prior, fuse, interleave, stands_elsewhere
from tests.encoder import WordEncoder

DOCUMENTS = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c"}


def test_documents_rank_by_their_best_passage() -> None:
    ranks, _ = document_prior([("x", 1.0, ["b1", "a2", "a1", "c1"])], DOCUMENTS.__getitem__)
    assert ranks == {"b": 1, "a": 2, "c": 3}


def test_certainty_falls_as_the_found_passages_scatter() -> None:
    certainties = [
        document_prior([("x", 1.0, list(range(10)))], document_of)[1]
        for document_of in (lambda row: 0, lambda row: row // 5, lambda row: row)
    ]
    assert certainties == pytest.approx([1.0, 0.25, 0.01])


def test_nothing_found_is_about_nothing() -> None:
    assert document_prior([("x", 1.0, [])], DOCUMENTS.__getitem__) == ({}, 0.0)


def test_a_ranking_of_documents_lifts_all_their_passages_and_adds_none() -> None:
    ranks = {"a": 1, "b": 2}
    found = fuse(
        [("typed", 1.0, ["c1", "b1", "a2", "a3"])], ranked=("document", 4.0, lambda name: ranks.get(DOCUMENTS[name]))
    )
    assert [item.id for item in found] == ["a2", "a3", "b1", "c1"]
    assert found[0].ranks == {"typed": 3, "document": 1}
    assert found[3].ranks == {"typed": 1}


def test_a_ranking_of_documents_without_weight_changes_nothing() -> None:
    plain = fuse([("typed", 1.0, ["c1", "b1"])])
    assert fuse([("typed", 1.0, ["c1", "b1"])], ranked=("document", 0.0, lambda name: 1)) == plain


def test_passages_of_the_document_that_is_spoken_of_move_up(tmp_path: Path, words: WordEncoder) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("boat", "car"):
        parts = [f"# {name}\n\nAll about the {name} licence.\n"]
        parts += [f"## Part {n}\n\nThe {name} licence, part {n}: {name} office {n}.\n" for n in range(12)]
        (docs / f"{name}.md").write_text("\n".join([*parts, "## Fees\n\nThe fee is paid by fax.\n"]))
    words.dimension = 48  # in which the two documents lie apart
    index_paths(tmp_path, "docs", [docs], words, passage_tokens=64)
    collection = Collection.open(tmp_path, "docs", words)
    typed = Query("the fee by fax", "typed")
    alone = [hit.passage.document_id for hit in collection.search([typed], k=100)]
    for name in ("boat", "car"):
        spoken = Query(f"the {name} licence", "said", document_prior_weight=1.0)
        hits = collection.search([typed, spoken], k=100)
        assert hits[0].passage.document_id.startswith(name)
        assert hits[0].passage.heading[-1] == "Fees"
        assert hits[0].ranks["document"] == 1
        assert sorted(hit.passage.document_id for hit in hits) == sorted(alone)
    collection.close()


@pytest.mark.parametrize(
    ("rankings", "elsewhere"),
    [
        ([["b1", "c1"], ["b1", "d1"]], True),
        ([["b1", "c1"], ["b2", "d1"]], True),
        ([["b1", "c1"], ["d1", "b1"]], False),  # two documents come first
        ([["b1", "a1"], ["b1", "d1"]], False),  # what is spoken of is near
        ([["a1", "b1"], ["a1", "b1"]], False),
        ([["b1"], []], False),
        ([["b1"]], False),  # one ranking only
    ],
)
def test_a_question_stands_elsewhere_where_both_rankings_begin_with_another_document(
    rankings: list[list[str]], elsewhere: bool
) -> None:
    assert stands_elsewhere(rankings, "a", lambda name: name[0]) is elsewhere


def test_the_best_of_the_plain_list_stand_at_their_places_at_the_latest() -> None:
    favoured = fuse([("x", 1.0, [f"a{n}" for n in range(9)])])
    plain = fuse([("x", 1.0, ["b1", "a1", "b2", "b3"])])
    merged = interleave(favoured, plain)
    assert [item.id for item in merged] == ["a0", "a1", "b1", "a2", "a3", "a4", "a5", "a6", "b2", "a7", "a8"]
    assert [item.score for item in merged] == sorted((item.score for item in merged), reverse=True)
    assert [item.id for item in interleave([], plain)] == ["b1", "a1", "b2"]


def test_a_document_that_is_spoken_of_does_not_fill_the_list(tmp_path: Path, words: WordEncoder) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    parts = [f"## Part {n}\n\nAll about the boat licence, part {n}: boat office {n}.\n" for n in range(30)]
    (docs / "boat.md").write_text("\n".join(["# boat\n", *parts]))
    for n in range(12):
        (docs / f"fees{n}.md").write_text(f"# Fees\n\nOld versions are kept for {n} years.\n")
    words.dimension = 256
    index_paths(tmp_path, "docs", [docs], words, passage_tokens=64)
    collection = Collection.open(tmp_path, "docs", words)

    def found(typed: Query) -> list[str]:
        spoken = Query("the boat licence, part 3", "said", document_prior_weight=30.0)
        return [hit.passage.document_id for hit in collection.search([typed, spoken], k=14)]

    assert found(Query("old versions are kept for 7 years", "typed", confidence=1.0))[0] == "fees7.md"
    leaning = found(Query("old versions are kept for 7 years", "users"))
    assert [leaning[place - 1][:4] for place in (1, 2, *PLAIN_PLACES)] == ["boat", "boat", "fees", "fees", "fees"]
    collection.close()
