from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, delete_collection, list_collections
from index.documents import Document, Query, Section
from index.encoders import Encoder
from index.errors import CollectionCorrupt, CollectionMismatch, CollectionNotFound, DocumentNotFound, InvalidName
from index.indexer import delete_documents, index_documents
from index.stores import EXACT, Neighbours, OpenMatrix, StoreSpec
from index.version import CollectionFolder
from tests.encoder import WordEncoder
from tests.index.conftest import document


@pytest.fixture
def collection(tmp_path: Path, documents: list[Document], words: WordEncoder) -> Collection:
    index_documents(tmp_path, "docs", documents, words)
    return Collection.open(tmp_path, "docs", words)


def found(collection: Collection, text: str, **options: object) -> list[str]:
    return [hit.passage.document_id for hit in collection.search([Query(text)], **options)]  # type: ignore[arg-type]


def test_a_question_finds_its_passage_by_both_rankings(collection: Collection, documents: list[Document]) -> None:
    hit = collection.search([Query("Which fax number has the claims office?", "typed")], k=3)[0]
    assert hit.passage.document_id == "fax"
    assert hit.ranks == {"typed/bm25": 1, "typed/dense": 1}
    assert hit.score == pytest.approx(2 / 61)
    assert documents[0].text[hit.passage.start : hit.passage.end] == hit.passage.text
    assert hit.passage.metadata == {"domain": "post"}


def test_a_question_is_encoded_once_for_its_search_and_its_vector(
    collection: Collection, words: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Which fax number has the claims office?"
    collection.search([Query(text, "typed")])
    vector = collection.question_vector(text, words.name)
    assert vector is not None
    assert np.array_equal(vector, words.encode([text])[0])
    monkeypatch.setattr(words, "encode", lambda _: pytest.fail("encoded again"))
    assert np.array_equal(collection.question_vector(text, words.name), vector)
    assert collection.question_vector(text, "another") is None
    assert collection.question_vector(" ", words.name) is None


def test_k_and_depth_bound_the_list(collection: Collection) -> None:
    assert len(found(collection, "claims office form fee", k=2)) == 2
    assert len(found(collection, "form", k=100, depth=100)) == 5
    assert len(collection.search([Query("form", lexical=0.0)], k=100, depth=2)) == 2
    assert found(collection, "form", k=0) == found(collection, "form", depth=0) == []


def test_weights_choose_the_ranking(collection: Collection) -> None:
    lexical = collection.search([Query("refundable", "a", dense=0.0)])
    assert [set(hit.ranks) for hit in lexical] == [{"a/bm25"}]
    dense = collection.search([Query("refundable", "a", lexical=0.0)])
    assert len(dense) == 5
    assert all(set(hit.ranks) == {"a/dense"} for hit in dense)
    assert collection.search([Query("refundable", lexical=0.0, dense=0.0)]) == []


def test_legs_are_fused_and_each_ones_rank_is_kept(collection: Collection) -> None:
    hits = collection.search([Query("fax", "typed"), Query("refund fee", "users", lexical=2.0)], k=5)
    by_id = {hit.passage.document_id: hit for hit in hits}
    assert by_id["fax"].ranks["typed/bm25"] == 1
    assert by_id["refund"].ranks["users/bm25"] == 1
    assert hits[0].passage.document_id == "refund", "the heavier leg leads"


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_a_blank_question_finds_nothing(collection: Collection, text: str) -> None:
    assert collection.search([Query(text)]) == []
    assert collection.search([]) == []


@pytest.mark.parametrize(
    "text", ["\ud800 fax", "fax\x00number", "'; DROP TABLE passages; --", "fax " * 5000, "💥", "%s {0}"]
)
def test_no_question_breaks_the_search(collection: Collection, text: str) -> None:
    assert isinstance(collection.search([Query(text)], k=3), list)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"domain": "money"}, {"refund", "loan"}),
        ({"domain": ["money", "road"]}, {"refund", "loan", "licence"}),
        ({"domain": "money", "document_id": "loan"}, {"loan"}),
        ({"document_id": ["fax", "mail"]}, {"fax", "mail"}),
        ({"domain": "nothing"}, set()),
        ({"unknown": "money"}, set()),
        ({"domain": []}, set()),
        ({'"]}; --': "money"}, set()),
        ({}, {"fax", "mail", "refund", "licence", "loan"}),
    ],
)
def test_where_limits_both_rankings(collection: Collection, where: dict[str, object], expected: set[str]) -> None:
    for lexical, dense in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        query = Query("fax mail office form fee refundable licence loans", lexical=lexical, dense=dense)
        hits = collection.search([query], where=where)  # type: ignore[arg-type]
        assert {hit.passage.document_id for hit in hits} == expected


def test_a_query_within_a_filter_favours_what_fits_it_and_reaches_nothing_else(
    tmp_path: Path, words: WordEncoder
) -> None:
    documents = [document(name, "The form costs a fee.", title=name.upper(), source=name) for name in "abcde"]
    index_documents(tmp_path, "same", documents, words)
    collection = Collection.open(tmp_path, "same", words)

    def first(*within: dict[str, object], **options: object) -> list[str]:
        queries = [Query("fee", "typed"), Query("fee", "page", lexical=0.2, dense=0.2, within=within)]  # type: ignore[arg-type]
        return [hit.passage.document_id for hit in collection.search(queries, **options)]  # type: ignore[arg-type]

    assert first() == first({"source": "x"}) == ["a", "b", "c", "d", "e"]
    assert first({"source": ["d", "d/"]}) == ["d", "a", "b", "c", "e"]
    assert first({"source": "x"}, {"title": "E"}, {"title": "D"})[:2] == ["e", "a"], "the first that fits any"
    assert first({"source": "d"}, where={"source": ["a", "b"]}) == ["a", "b"], "the search's own filter holds"
    (alone,) = collection.search([Query("fee", "page", within=({"title": "C"},))])
    assert alone.ranks == {"page/bm25": 1, "page/dense": 1}


def test_where_tells_types_apart(tmp_path: Path, words: WordEncoder) -> None:
    values = {"int": 1, "float": 1.5, "true": True, "text": "1", "quote": 'a"b\\c'}
    index_documents(
        tmp_path, "typed", [document(name, "some form", key=value) for name, value in values.items()], words
    )
    collection = Collection.open(tmp_path, "typed", words)
    for name, value in values.items():
        assert found(collection, "form", where={"key": value}) == [name]


def test_a_document_comes_back_whole(tmp_path: Path, words: WordEncoder) -> None:
    text = "Intro.\n\nBody ✓ with ünicode.\n"
    whole = Document(
        "folder/a b.md",
        "A title",
        text,
        (Section((), 0, 6), Section(("Part", "Sub"), 8, len(text), 3, metadata={"lang": "de"})),
        {"source": "folder/a b.md", "format": "markdown", "year": 2024, "draft": False},
    )
    index_documents(tmp_path, "docs", [whole], words)
    collection = Collection.open(tmp_path, "docs", words)
    assert collection.document("folder/a b.md") == whole
    (info,) = collection.documents()
    assert (info.id, info.title, info.source, info.format, info.passages) == (
        "folder/a b.md", "A title", "folder/a b.md", "markdown", 2,
    )  # fmt: skip
    assert info.content_hash == whole.content_hash
    hit = collection.search([Query("ünicode body")])[0]
    assert (hit.passage.heading, hit.passage.page, hit.passage.metadata["lang"]) == (("Part", "Sub"), 3, "de")
    with pytest.raises(DocumentNotFound, match="other"):
        collection.document("other")


def test_an_update_is_seen_after_refresh_and_not_before(
    collection: Collection, tmp_path: Path, words: WordEncoder
) -> None:
    before = collection.version
    index_documents(tmp_path, "docs", [document("zebra", "The zebra crossing has stripes.")], words)
    assert found(collection, "zebra stripes", k=1) != ["zebra"]
    assert collection.refresh()
    assert not collection.refresh()
    assert collection.version != before
    assert found(collection, "zebra stripes", k=1) == ["zebra"]


def test_deleting_takes_a_document_out_of_both_rankings(
    collection: Collection, tmp_path: Path, words: WordEncoder
) -> None:
    delete_documents(tmp_path, "docs", ["fax"], words)
    collection.refresh()
    for query in (Query("fax number", dense=0.0), Query("fax number", lexical=0.0)):
        assert "fax" not in {hit.passage.document_id for hit in collection.search([query], k=100)}
    assert {info.id for info in collection.documents()} == {"mail", "refund", "licence", "loan"}
    with pytest.raises(DocumentNotFound, match="nothing was deleted"):
        delete_documents(tmp_path, "docs", ["mail", "fax"], words)
    assert not collection.refresh()


def test_the_last_document_can_be_deleted(tmp_path: Path, words: WordEncoder) -> None:
    index_documents(tmp_path, "docs", [document("only", "the only form")], words)
    delete_documents(tmp_path, "docs", ["only"], words)
    collection = Collection.open(tmp_path, "docs", words)
    assert collection.search([Query("form")]) == []
    assert collection.documents() == []
    index_documents(tmp_path, "docs", [document("next", "another form")], words)
    collection.refresh()
    assert found(collection, "form") == ["next"]


def test_many_updates_rank_as_one_build(tmp_path: Path, documents: list[Document], words: WordEncoder) -> None:
    index_documents(tmp_path, "whole", documents, words)
    for one in reversed(documents):
        index_documents(tmp_path, "grown", [replace(one, text=one.text + " Soon outdated.")], words)
        index_documents(tmp_path, "grown", [one], words)
    whole, grown = (Collection.open(tmp_path, name, words) for name in ("whole", "grown"))
    for text in ("fax form office", "repay loans", "licence eight years"):
        assert grown.search([Query(text)], k=10) == whole.search([Query(text)], k=10)


def test_verbatim_passages_keep_their_ids_and_repeated_ones_are_told(tmp_path: Path, words: WordEncoder) -> None:
    def corpus(name: str) -> Document:
        sections = (Section((), 0, 9, passage_id="row 1"), Section((), 10, 20, passage_id=f"{name}-2"))
        return Document(name, "", "first row\nsecond row", sections, verbatim=True)

    report = index_documents(tmp_path, "docs", [corpus("a"), corpus("b")], words)
    assert [status.passages for status in report.files] == [2, 1]
    assert "ids" in report.files[1].message
    ids = {hit.passage.id for hit in Collection.open(tmp_path, "docs", words).search([Query("row")])}
    assert ids == {"row 1", "a-2", "b-2"}


def test_another_encoder_is_refused_with_advice(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(CollectionMismatch, match="index again"):
        Collection.open(tmp_path, "docs", WordEncoder(name="other"))
    with pytest.raises(CollectionMismatch, match="store_url"):
        Collection.open(tmp_path, "docs", WordEncoder(), store=StoreSpec("chroma", "http://localhost:1"))
    assert found(collection, "fax", k=1) == ["fax"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", ".hidden", "a..b", "x" * 65, "a\n", "a b", "\\x"])
def test_names_that_could_leave_the_root_are_refused(tmp_path: Path, words: WordEncoder, name: str) -> None:
    with pytest.raises(InvalidName):
        index_documents(tmp_path, name, [document("a", "text")], words)
    with pytest.raises(CollectionNotFound):
        Collection.open(tmp_path, name, words)
    with pytest.raises(CollectionNotFound):
        delete_collection(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_collections_are_listed_and_deleted(tmp_path: Path, documents: list[Document], words: WordEncoder) -> None:
    assert list_collections(tmp_path / "nowhere") == []
    index_documents(tmp_path, "b", documents, words)
    index_documents(tmp_path, "a", documents[:2], words)
    (tmp_path / "stray").mkdir()
    first, second = list_collections(tmp_path)
    assert (first.name, first.documents, first.passages) == ("a", 2, 2)
    assert (second.name, second.documents) == ("b", 5)
    reader = Collection.open(tmp_path, "a", words)
    delete_collection(tmp_path, "a")
    assert [info.name for info in list_collections(tmp_path)] == ["b"]
    assert found(reader, "fax", k=1) == ["fax"], "a reader keeps what it has open"
    with pytest.raises(CollectionNotFound):
        Collection.open(tmp_path, "a", words)
    with pytest.raises(CollectionNotFound):
        delete_collection(tmp_path, "a")


@pytest.mark.parametrize(
    ("part", "store"),
    [
        ("records.sqlite", EXACT),
        ("vectors.npy", EXACT),
        ("lexical", EXACT),
        ("manifest.json", EXACT),
        ("vectors.signs.npy", StoreSpec("quantised")),
    ],
)
def test_missing_parts_are_reported_as_a_corrupt_collection(
    tmp_path: Path, documents: list[Document], words: WordEncoder, part: str, store: StoreSpec
) -> None:
    index_documents(tmp_path, "docs", documents, words, store=store)
    folder = next(CollectionFolder(tmp_path, "docs").sound()).folder
    (folder / part).rename(tmp_path / "taken")
    with pytest.raises(CollectionCorrupt, match="index again"):
        Collection.open(tmp_path, "docs", words, store=store)


def test_searches_go_on_while_versions_change(collection: Collection, tmp_path: Path, words: WordEncoder) -> None:
    stop = threading.Event()

    def search() -> int:
        count = 0
        while not stop.is_set():
            assert found(collection, "fax number", k=1) == ["fax"]
            count += 1
        return count

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(search) for _ in range(3)]
        for number in range(4):
            index_documents(tmp_path, "docs", [document(f"new {number}", f"unrelated words {number}")], words)
            collection.refresh()
        stop.set()
        assert all(task.result() > 0 for task in running)
    assert len(collection.documents()) == 9


READER = """
import sys
from pathlib import Path
from index.collection import Collection
from index.documents import Query
from index.stores import EXACT, Neighbours, StoreSpec
from index.stores import OpenMatrix
from tests.encoder import WordEncoder
collection = Collection.open(Path(sys.argv[1]), "docs", WordEncoder())
for line in sys.stdin:
    if line.strip() == "refresh":
        print(collection.refresh(), flush=True)
    else:
        hits = collection.search([Query(line.strip(), lexical=0.0)], k=100)
        print(" ".join(hit.passage.document_id for hit in hits), flush=True)
"""


def test_a_reader_in_another_process_keeps_the_last_good_version_until_it_refreshes(
    tmp_path: Path, documents: list[Document], words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", documents, words)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as reader:
        assert reader.stdin
        assert reader.stdout

        def ask(line: str) -> str:
            assert reader.stdin
            assert reader.stdout
            reader.stdin.write(f"{line}\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert ask("fax").split()[0] == "fax"
        # Two versions on: the one the reader has open is no longer on disk.
        delete_documents(tmp_path, "docs", ["fax"], words)
        index_documents(tmp_path, "docs", [document("zebra", "zebra stripes")], words)
        assert ask("fax").split()[0] == "fax"
        assert "zebra" not in ask("zebra stripes").split()
        assert ask("refresh") == "True"
        assert "fax" not in ask("fax").split(), "deleted rows do not come back"
        assert ask("zebra stripes").split()[0] == "zebra"
        reader.stdin.close()
        assert reader.wait(120) == 0


def test_a_search_whose_version_is_gone_goes_on_in_the_newest(
    collection: Collection, tmp_path: Path, words: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = [Query("zebra stripes", lexical=0.0)]
    before = collection.version
    whole = OpenMatrix.search

    def gone(matrix: OpenMatrix, *arguments: object) -> list[Neighbours]:
        if collection.version == before:
            raise CollectionCorrupt("Failed to get segments: index again")
        return whole(matrix, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(OpenMatrix, "search", gone)
    with pytest.raises(CollectionCorrupt, match="index again"):
        collection.search(query)
    index_documents(tmp_path, "docs", [document("zebra", "zebra stripes")], words)
    assert collection.search(query)[0].passage.document_id == "zebra"


def test_meaning_finds_what_words_do_not(tmp_path: Path, documents: list[Document], encoder: Encoder) -> None:
    index_documents(tmp_path, "docs", documents, encoder)
    collection = Collection.open(tmp_path, "docs", encoder)
    hits = collection.search([Query("How long can I ask for reimbursement?", "typed")], k=1)
    assert hits[0].passage.document_id == "refund"
    assert hits[0].ranks == {"typed/dense": 1}
