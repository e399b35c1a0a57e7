"""Plain text and reading: character sets, form feeds, line ends, what is no text."""

from __future__ import annotations

import os
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


CHINESE = "# 博物馆\n\n博物馆早上九点开门，下午六点关门。星期一不开门。请提前买票，因为人很多。\n"
RUSSIAN = "Музей открывается в девять часов утра, а закрывается в шесть.\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [GERMAN, CHINESE, RUSSIAN, "a b\n" * 50_000, "Tea 🫖 and cake 🍰.\n"])
def test_utf_16_without_a_byte_order_mark_is_read(tmp_path: Path, encoding: str, text: str) -> None:
    assert loaded(tmp_path, text.encode(encoding)).text == text


def test_html_in_utf_16_is_read_with_and_without_a_mark_whatever_it_declares(tmp_path: Path) -> None:
    page = '<html><head><meta charset="utf-16"></head><body><h1>Fair</h1><p>The fair is in May.</p></body></html>'
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8"):
        assert "The fair is in May." in loaded(tmp_path, page.encode(encoding), "a.html").text


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
    for binary in (b"Somewords\x00" * 50, "Größe".encode("utf-32-le") * 9, bytes(range(256)) * 40, os.urandom(9000)):
        with pytest.raises(LoadError, match="does not hold text"):
            loaded(tmp_path, binary)


def test_a_line_of_megabytes_is_read(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, b"word " * 400_000).text) == 2_000_000


def test_white_space_alone_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="nothing but white space"):
        loaded(tmp_path, b" \n\f\n")


def test_titles_are_one_bounded_line() -> None:
    assert one_line(" a\n b\t") == "a b"
    assert len(one_line("word " * 1000)) <= 300
    assert title_from_name("getting_started-here.v2.md") == "getting started here.v2"
