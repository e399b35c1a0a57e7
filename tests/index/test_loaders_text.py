"""Plain text and reading: character sets, form feeds, line ends, what is no text."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.documents import Document
from index.errors import LoadError
from index.loaders import load
from index.loaders.reading import one_line, title_from_name

GERMAN = "Größe und Maß: für die Höhe gilt überall das Übliche. Änderungen müssen schriftlich erfolgen.\n" * 3


def loaded(folder: Path, data: bytes, name: str = "a.txt") -> Document:
    path = folder / name
    path.write_bytes(data)
    (document,) = load(path, name)
    return document


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
def test_text_is_read_in_its_character_set(tmp_path: Path, encoding: str) -> None:
    document = loaded(tmp_path, GERMAN.encode(encoding))
    assert document.text == GERMAN
    (section,) = document.sections
    assert document.text[section.start : section.end] == GERMAN.strip()
    assert section.page is None


def test_form_feeds_part_pages(tmp_path: Path) -> None:
    document = loaded(tmp_path, b"One.\n\fTwo.\n\f\n\fFour.")
    assert [(document.text[part.start : part.end], part.page) for part in document.sections] == [
        ("One.", 1), ("Two.", 2), ("Four.", 4),
    ]  # fmt: skip


def test_line_ends_become_one_kind(tmp_path: Path) -> None:
    assert loaded(tmp_path, b"a\r\nb\rc\nd").text == "a\nb\nc\nd"


def test_a_stray_nul_is_replaced_and_many_mean_binary(tmp_path: Path) -> None:
    assert loaded(tmp_path, b"Some words" * 50 + b"\x00 and more").text.endswith("\ufffd and more")
    with pytest.raises(LoadError, match="does not hold text"):
        loaded(tmp_path, b"Some words\x00" * 50)


def test_a_line_of_megabytes_is_read(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, b"word " * 400_000).text) == 2_000_000


def test_white_space_alone_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="nothing but white space"):
        loaded(tmp_path, b" \n\f\n")


def test_titles_are_one_bounded_line() -> None:
    assert one_line(" a\n b\t") == "a b"
    assert len(one_line("word " * 1000)) <= 300
    assert title_from_name("getting_started-here.v2.md") == "getting started here.v2"
