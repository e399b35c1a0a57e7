"""`corpus.jsonl`: rows are passages as they stand, grouped into the documents they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from index.documents import Document
from index.errors import LoadError
from index.loaders import load
from index.passages import split
from tests.scanning import scan


def row(name: object, text: object = "Words.", title: str = "T", **metadata: object) -> str:
    return json.dumps({"_id": name, "title": title, "text": text, "metadata": metadata})


def written(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "corpus.jsonl"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + b"\n")
    return path


def passages_of(documents: list[Document]) -> list[tuple[str, str, str, str]]:
    return [
        (passage.id, passage.document_id, passage.title, passage.text)
        for document in documents
        for passage in split(document, 10, lambda text: len(text.split()))
    ]


def test_rows_become_passages_as_they_stand_under_their_own_ids(tmp_path: Path) -> None:
    long = "word " * 500
    path = written(
        tmp_path, row("a-1", " As it stands.\n\n", doc_id="a"), row("b", long), row("a-2", "Two", doc_id="a")
    )
    documents = load(path, "corpus.jsonl")
    assert [document.id for document in documents] == ["a", "b"]
    assert passages_of(documents) == [
        ("a-1", "a", "T", " As it stands.\n\n"),
        ("a-2", "a", "T", "Two"),
        ("b", "b", "T", long),
    ]
    for document in documents:
        for passage in split(document, 10, len):
            assert document.text[passage.start : passage.end] == passage.text


def test_rows_without_text_break_nothing(tmp_path: Path) -> None:
    path = written(
        tmp_path, row("1", "\n", "", doc_id="d"), row("2", "", "Title only", doc_id="e"), row("3", doc_id="d")
    )
    assert [name for name, *_ in passages_of(load(path, "c"))] == ["3", "2"]


def test_metadata_reaches_the_passages_and_stays_flat(tmp_path: Path) -> None:
    one = row("1", doc_id="d", domain="tax", part=1, spans=[1, 2], url="https://example.org/d")
    (document,) = load(written(tmp_path, one, row("2", doc_id="d", domain="tax", part=2)), "c.jsonl")
    assert document.metadata == {
        "doc_id": "d", "domain": "tax", "source": "https://example.org/d", "format": "corpus",
    }  # fmt: skip
    assert [passage.metadata["part"] for passage in split(document, 99, len)] == [1, 2]


MALFORMED = [
    ("{", "line 2: not JSON"),
    ("[]", "line 2: not a JSON object"),
    (json.dumps({"text": "x"}), "line 2: no `_id`"),
    (row("", "x"), "line 2: no `_id`"),
    (row("x", None), "line 2: no `text`"),
    (row("ok"), "line 2: `_id` 'ok' was used in line 1"),
    (b'{"_id": "\xff"}', "line 2: not UTF-8"),
    ("[" * 100_000, "line 2: not JSON"),
    ('{"_id": "x", "n": ' + "9" * 5000 + "}", "line 2: not JSON"),
]


@pytest.mark.parametrize(("line", "message"), MALFORMED)
def test_a_malformed_row_is_named_by_its_line(tmp_path: Path, line: str | bytes, message: str) -> None:
    path = written(tmp_path, row("ok"), line, "", row("fine"))
    with pytest.raises(LoadError, match=r"corpus\.jsonl has 1 malformed rows: ") as raised:
        load(path, "c")
    assert message in str(raised.value)
    (found,) = scan([path])
    assert [document.id for document in found.documents] == ["ok", "fine"]
    assert message in found.warnings[0]


def test_a_row_above_the_limit_is_left_out_without_reading_on_in_it(tmp_path: Path) -> None:
    path = written(tmp_path, row("ok"), row("big", "x" * 50_000), row("fine"))
    told: list[str] = []
    assert [document.id for document in load(path, "c", 0.01, told.append)] == ["ok", "fine"]
    assert "line 2: longer than a file may be" in told[0]


def test_other_lines_of_json_are_refused_with_what_a_corpus_is(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no `_id`"):
        load(written(tmp_path, json.dumps({"question": "x"})), "c", warn=print)


def test_lone_surrogates_and_nul_never_leave_the_loader(tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"_id": "a\\ud800", "title": "\\u0000t", "text": "x\\ud83d y", "metadata": {"k": "\\ud800"}}'
    )
    (document,) = load(path, "c")
    for text in (document.id, document.title, document.text, repr(document.metadata), document.sections[0].passage_id):
        assert "\x00" not in text
        text.encode("utf-8")
