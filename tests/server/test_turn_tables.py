"""Table rows said as sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from text.sentences import named, sentences, table_rows, tables, with_rows_said

TABLE = "Limits.\n\n| Format | Largest |\n|---|---|\n| PDF | 50 MB |\n| a \\| b | |\n\nAsk us.\n"


def test_rows_are_said_with_the_names_of_their_columns() -> None:
    assert with_rows_said(TABLE) == "Limits.\n\nFormat: PDF; Largest: 50 MB.\nFormat: a | b.\n\nAsk us.\n"


def test_rows_stand_where_sentences_begin() -> None:
    begins = [sentence.start for sentence in sentences(TABLE) if sentence.kind == "row"]
    assert table_rows(TABLE) == dict(zip(begins, ["", "Format: PDF; Largest: 50 MB.", "Format: a | b."], strict=True))


def test_a_table_in_a_list_and_one_after_another() -> None:
    text = "- x\n\n  | A | B |\n  |---|---|\n  | 1 | 2 |\n\n| | C |\n|---|---|\n| 3 | 4. |"
    assert with_rows_said(text) == "- x\n\nA: 1; B: 2.\n\n3; C: 4."


def test_a_table_that_began_before_the_passage_is_said_by_its_cells() -> None:
    text = "| Word | `.docx` | text. |\n| a \\| b |  |\n\nOther | formats."
    assert with_rows_said(text) == "Word; `.docx`; text.\na | b.\n\nOther | formats."


def test_a_row_of_empty_cells_says_nothing_and_hides_nothing() -> None:
    assert with_rows_said("| A |\n|---|\n|  |\n| 1 |") == "A: 1."


def test_a_part_of_an_address_names_no_row() -> None:
    rows = "| `ghcr.io` | Yes |\n| `https://ghcr.io` | No |\n| `/etc/motd` | No |"
    [table] = tables(f"| Host | Valid |\n|---|---|\n{rows}")
    assert named(["log in to https://ghcr.io/team"], table).rows == ()
    assert named(["log in to ghcr.io."], table).rows == table.rows[:1]
    assert named(["is https://ghcr.io right"], table).rows == table.rows[1:2]
    assert named(["who reads /etc/motd?"], table).rows == table.rows[2:]


def test_text_without_a_table_stays_as_it_is() -> None:
    for text in ("", "a | b", "a |\n| b", "|||", "| --- |", "```\n| a |\n|---|\n| b |\n```"):
        assert with_rows_said(text) == text
        assert table_rows(text) == {}


@given(st.text(alphabet="|-: ab\n\\`", max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    said = with_rows_said(text)
    assert with_rows_said(said).count("\n") <= text.count("\n")
    assert all(0 <= start < len(text) for start in table_rows(text))
