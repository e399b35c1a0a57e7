"""Which characters nobody is shown, and which no model is given."""

from __future__ import annotations

import unicodedata

import pytest

from text.sanitize import is_showable, masked, sanitize_line, sanitize_text, seen

CONTROLS = [
    chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\t\n"
]
_TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
REORDERING = [chr(code) for code in range(0x3000) if unicodedata.bidirectional(chr(code)) in _TURNING]
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")


@pytest.mark.parametrize("character", [*CONTROLS, *REORDERING, *map(chr, (0xD800, 0xDFFF))], ids=ascii)
def test_controls_reordering_and_surrogates_are_never_shown(character: str) -> None:
    text = f"a{character}b"
    assert not is_showable(text)
    assert sanitize_text(text) == seen(text) == "ab"
    assert len(masked(text)) == len(text)
    assert is_showable(masked(text))


@pytest.mark.parametrize("text", ["a\tb\nc", "👩‍👩‍👧", "می‌خواهم", "क्‍ष", "Straße – naïve", "汉字", "a\u00adb"])
def test_ordinary_text_stays(text: str) -> None:
    assert is_showable(text)
    assert sanitize_text(text) == masked(text) == seen(text) == text


def test_what_a_person_does_not_see_no_model_reads() -> None:
    assert seen(f"Fees are due.{TAGS}\u200b\u2063\ufeff\U000e0101") == "Fees are due."


def test_a_line_stays_one_line() -> None:
    assert sanitize_line("a.md\r\nerror: \x1b[31mall\u2028is  lost\n") == "a.md error: [31mall is lost"


def test_offsets_of_a_masked_text_are_those_of_the_text() -> None:
    assert masked("a\r\nb\rc\x1bd") == "a \nb\nc\ufffdd"
