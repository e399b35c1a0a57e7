"""What is searched of a document: sections, sentences, propositions, or propositions and sections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from index.collection import Collection
from index.documents import Document, Section
from index.errors import CollectionCorrupt, LoadError
from index.indexer import index_paths
from index.pools import Pool, Stated, read_pool, remembered
from index.query import Query
from tests.damages import Damage, empty, flip, truncate

TEXT = "The permit costs $35. It is valid for a year. Dogs need a permit of their own."


@pytest.fixture
def fees() -> Document:
    return Document("fees.md", "Fees", TEXT, (Section(("Permits",), 0, 45), Section(("Dogs",), 46, len(TEXT))))


def row(text: str, source: str, name: str = "fees.md") -> dict[str, Any]:
    start = TEXT.index(source)
    where = {"document_id": name, "start": start, "end": start + len(source), "source": source}
    return {"_id": f"p-{start}", "text": text, **where}


ROWS = [
    row("The parking permit is valid for a year.", "It is valid for a year."),
    row("Dogs need a permit of their own.", "Dogs need a permit of their own."),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "propositions.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in ROWS))
    return path


def count(text: str) -> int:
    return len(text.split())


def test_a_proposition_keeps_its_source_span_and_the_headings_around_it(fees: Document, store: Path) -> None:
    passages, remarks = read_pool(store, "proposition").passages(fees, 100, count)
    first, second = passages
    assert not remarks
    assert (first.text, first.kind, first.id) == ("The parking permit is valid for a year.", "proposition", "p-22")
    assert TEXT[first.start : first.end] == "It is valid for a year."
    assert (first.heading, second.heading) == (("Permits",), ("Dogs",))
    assert TEXT[first.metadata["section_start"] : first.metadata["section_end"]] == TEXT[:45]


def test_both_holds_propositions_and_sections_in_reading_order(fees: Document, store: Path) -> None:
    passages, _ = read_pool(store, "both").passages(fees, 100, count)
    assert [one.kind for one in passages] == ["section", "proposition", "section", "proposition"]


def test_sentences_are_a_pool_of_their_own(fees: Document) -> None:
    passages, _ = Pool("sentence").passages(fees, 100, count)
    assert [one.text for one in passages] == TEXT.replace(". ", ".\n").split("\n")
    assert {one.kind for one in passages} == {"sentence"}


def test_a_document_without_propositions_keeps_its_sections(store: Path) -> None:
    other = Document("other.md", "", "Nothing was written about this.", (Section((), 0, 31),))
    passages, _ = read_pool(store, "proposition").passages(other, 100, count)
    assert [one.kind for one in passages] == ["section"]


def test_propositions_of_an_older_text_are_left_out_and_told(fees: Document, store: Path) -> None:
    changed = Document("fees.md", "Fees", TEXT.replace("a year", "two years"), fees.sections[:1])
    passages, remarks = read_pool(store, "proposition").passages(changed, 100, count)
    assert [one.kind for one in passages] == ["section"]
    assert remarks == ["2 propositions left out: the document changed since they were written"]


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "no place"}', json.dumps({**ROWS[0], "start": -1})])
def test_a_line_that_is_no_proposition_is_named(store: Path, line: str) -> None:
    store.write_text(f"{json.dumps(ROWS[0])}\n{line}\n")
    with pytest.raises(LoadError, match="line 2 is no proposition"):
        read_pool(store, "both")


def test_a_collection_remembers_its_pool(tmp_path: Path, words: Any, store: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "fees.md").write_text(TEXT)
    index_paths(tmp_path, "town", [docs], words, pool=read_pool(store, "proposition"))
    (docs / "pool.md").write_text("The pool opens at nine.")
    index_paths(tmp_path, "town", [docs], words)

    collection = Collection.open(tmp_path, "town", words)
    found = {hit.passage.text: hit.passage.kind for hit in collection.search([Query("permit pool")], k=9)}
    collection.close()
    assert found == {
        ROWS[0]["text"]: "proposition",
        ROWS[1]["text"]: "proposition",
        "The pool opens at nine.": "section",
    }


def test_another_pool_indexes_unchanged_files_again(tmp_path: Path, words: Any, store: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "fees.md").write_text(TEXT)
    index_paths(tmp_path, "town", [docs], words)
    again = index_paths(tmp_path, "town", [docs], words, pool=Pool("sentence"))
    unchanged = index_paths(tmp_path, "town", [docs], words)
    assert [file.status for file in (*again.files, *unchanged.files)] == ["indexed", "unchanged"]
    assert again.files[0].passages == 3


def test_a_torn_memory_of_the_pool_is_told(tmp_path: Path) -> None:
    (tmp_path / "pool.json").write_text("{")
    with pytest.raises(CollectionCorrupt, match="--pool"):
        remembered(tmp_path)


@pytest.mark.parametrize("damage", [truncate, flip, empty])
def test_a_damaged_memory_of_the_pool_is_told_and_replaced(tmp_path: Path, damage: Damage) -> None:
    pool = Pool("both", {"d": (Stated("p", "The fee is ten euros.", 0, 8, "Fee: 10."),)})
    pool.remember(tmp_path)
    assert remembered(tmp_path) == pool
    damage(tmp_path / "pool.json")
    with pytest.raises(CollectionCorrupt, match="--pool"):
        remembered(tmp_path)
    Pool().remember(tmp_path)
    assert remembered(tmp_path) == Pool()


def test_a_changed_word_of_a_remembered_proposition_is_told(tmp_path: Path) -> None:
    Pool("both", {"d": (Stated("p", "The fee is ten euros.", 0, 8, "Fee: 10."),)}).remember(tmp_path)
    path = tmp_path / "pool.json"
    path.write_text(path.read_text("utf-8").replace("ten euros", "tan euros"), "utf-8")
    with pytest.raises(CollectionCorrupt, match="not as it was written"):
        remembered(tmp_path)
