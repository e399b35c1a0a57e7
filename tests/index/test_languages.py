"""Words stemmed by the language of their document: what is found, what is recorded, what a changed setting does."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.collection import Collection
from index.documents import Document, Query, Section
from index.indexer import delete_documents, index_documents
from tests.encoder import WordEncoder

PAGES = {
    "geraet": "Das Gerät wird mit dem Schalter an der Rückseite zurückgesetzt, solange die Lampe leuchtet.",
    "garantie": "Die Garantie gilt zwei Jahre, und die Rechnung ist dabei der Nachweis für den Händler.",
    "warranty": "The warranty lasts two years, and the receipt is what proves it to the dealer.",
    "reset": "Whoever resets a device holds the switch at its back until the light is off.",
}


def pages(**more: str) -> list[Document]:
    return [
        Document(name, name, text, (Section((), 0, len(text)),), {"source": name})
        for name, text in (more or PAGES).items()
    ]


@pytest.fixture
def words() -> WordEncoder:
    return WordEncoder()


def found(root: Path, words: WordEncoder, question: str) -> list[str]:
    collection = Collection.open(root, "docs", words)
    try:
        return [hit.passage.document_id for hit in collection.search([Query(question, dense=0.0)])]
    finally:
        collection.close()


def test_german_words_are_found_in_their_forms_once_the_setting_says_so_and_nothing_is_embedded_again(
    tmp_path: Path, words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", pages(), words)
    assert found(tmp_path, words, "Lampen") == []
    report = index_documents(tmp_path, "docs", [], words, language="auto")
    assert report.embedded == 0
    assert found(tmp_path, words, "Lampen") == ["geraet"]
    assert found(tmp_path, words, "Händlers")[:1] == ["garantie"]
    assert found(tmp_path, words, "resetting devices")[:1] == ["reset"], "an English question finds English pages"
    with_language = Collection.open(tmp_path, "docs", words)
    assert with_language.language == "auto"
    with_language.close()


def test_a_setting_that_is_not_named_stays_and_an_unchanged_one_writes_nothing(
    tmp_path: Path, words: WordEncoder
) -> None:
    index_documents(tmp_path, "docs", pages(), words, language="de")
    version = index_documents(tmp_path, "docs", [], words, language="de").version
    assert index_documents(tmp_path, "docs", [], words).version == version
    delete_documents(tmp_path, "docs", ["warranty"], words)
    index_documents(tmp_path, "docs", pages(kaputt="Die Lampen sind defekt."), words)
    assert sorted(found(tmp_path, words, "Lampe")) == ["geraet", "kaputt"]
    assert index_documents(tmp_path, "docs", [], words, language="en").version != version
    assert found(tmp_path, words, "Lampe") == ["geraet"], "the other page says Lampen, which is no English plural"


def test_chinese_is_found_by_pairs_of_characters_under_any_setting(tmp_path: Path, words: WordEncoder) -> None:
    text = pages(reset="按住背面的按钮五秒钟即可重置设备。", warranty="保修期为两年，请保留发票。")
    for language in ("en", "auto", "zh"):
        index_documents(tmp_path, "docs", text, words, language=language)
        assert found(tmp_path, words, "怎么重置？") == ["reset"]
        assert found(tmp_path, words, "发票") == ["warranty"]
