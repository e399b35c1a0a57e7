"""Faults of reading pages that were met in the wild, each on a page made here: titles, tables, captions, columns."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from index.documents import Document
from index.loaders import load
from index.loaders.pdf.loading import read
from index.loaders.pdf.regions import Region

WIDTH, HEIGHT = A4
FONT, SIZE = "Times-Roman", 10
LEFT, RIGHT, COLUMN = 60, 310, 225


class Page:
    """A page of two columns, drawn a line at a time; `at` is how far down each column is."""

    def __init__(self, title: str = "") -> None:
        self.buffer = io.BytesIO()
        self.canvas = Canvas(self.buffer, pagesize=A4)
        self.canvas.setTitle(title)

    def line(self, x: float, y: float, text: str, size: float = SIZE, font: str = FONT) -> None:
        self.canvas.setFont(font, size)
        self.canvas.drawString(x, HEIGHT - y, text)

    def prose(self, x: float, y: float, count: int, name: str, width: float = COLUMN) -> float:
        """So many full lines of text; returns where the next line goes."""
        text = " ".join(f"{name}{n % 7} stands in a house by the sea and counts the boats" for n in range(count))
        for n, line in enumerate(simpleSplit(text, FONT, SIZE, width)[:count]):
            self.line(x, y + 12 * n, line)
        return y + 12 * count

    def justified(self, x: float, y: float, words: str, width: float = COLUMN) -> None:
        """A line whose blanks are stretched until it fills its column."""
        parts = words.split()
        blank = (width - sum(stringWidth(part, FONT, SIZE) for part in parts)) / (len(parts) - 1)
        for part in parts:
            self.line(x, y, part)
            x += stringWidth(part, FONT, SIZE) + blank

    def saved(self, folder: Path) -> Path:
        self.canvas.save()
        path = folder / "made.pdf"
        path.write_bytes(self.buffer.getvalue())
        return path

    def regions(self, folder: Path) -> list[Region]:
        return read(self.saved(folder), 1 << 20).regions

    def document(self, folder: Path) -> Document:
        (document,) = load(self.saved(folder), "made.pdf")
        return document


def paper(title: str = "", *, heading: str = "Counting Boats by the Sea", size: float = 14) -> Page:
    page = Page(title)
    page.line(WIDTH / 2 - stringWidth(heading, "Times-Bold", size) / 2, 80, heading, size, "Times-Bold")
    page.line(WIDTH / 2 - 40, 110, "Ada Wick and Bea Stone", 11)
    page.line(150, 160, "Abstract", 12, "Times-Bold")
    page.prose(LEFT, 180, 20, "ann")
    page.line(LEFT, 440, "1 Introduction", 12, "Times-Bold")
    page.prose(LEFT, 460, 20, "cid")
    page.prose(RIGHT, 160, 44, "eve")
    return page


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ("Proceedings of the Conference on Boats", "Counting Boats by the Sea"),
        ("Annual Review of Harbours, Volume 7", "Counting Boats by the Sea"),
        ("COUNTING BOATS BY THE SEA (preprint)", "COUNTING BOATS BY THE SEA (preprint)"),
        ("", "Counting Boats by the Sea"),
    ],
)
def test_the_title_is_the_first_pages_unless_the_file_names_the_same(tmp_path: Path, named: str, taken: str) -> None:
    assert paper(named).document(tmp_path).title == taken


def test_a_title_that_is_torn_at_the_gutter_keeps_its_order(tmp_path: Path) -> None:
    page = Page()
    # As scans have it: pieces of a line at slightly different heights, the middle one drawn last.
    page.line(110, 80, "THE RIGHT AND", 12, "Times-Bold")
    page.line(342, 79, "COUNTING OF BOATS", 12, "Times-Bold")
    page.line(227, 82, "QUICK WAY OF", 12, "Times-Bold")
    page.line(150, 130, "Abstract", 12, "Times-Bold")
    page.prose(LEFT, 150, 46, "ann")
    page.prose(RIGHT, 130, 48, "eve")
    assert page.document(tmp_path).title == "THE RIGHT AND QUICK WAY OF COUNTING OF BOATS"


def test_stretched_lines_are_text_and_no_table(tmp_path: Path) -> None:
    page = paper()
    page.canvas.showPage()
    below = page.prose(LEFT, 80, 12, "fay")
    lines = (
        "occupying executive posts (the management",
        "objects included missing the descriptor or",
        "evaluations reported on at the",
    )
    for n, line in enumerate(lines):
        page.justified(LEFT, below + 12 * n, line)
    page.prose(LEFT, below + 36, 12, "gus")
    page.prose(RIGHT, 80, 27, "hal")
    regions = page.regions(tmp_path)
    assert "table" not in {region.kind for region in regions}
    text = " ".join(region.text for region in regions)
    assert " ".join(lines) in text


def test_a_list_whose_marks_stand_apart_is_no_table(tmp_path: Path) -> None:
    page = Page()
    below = page.prose(LEFT, 80, 6, "ida", 470)
    for n, (mark, words) in enumerate(
        (
            ("•", "Boats that are counted by day;"),
            ("", "and by night, if there is a moon;"),
            ("•", "Boats that nobody counts."),
        )
    ):
        page.line(LEFT, below + 12 * n, mark)
        page.line(LEFT + 30, below + 12 * n, words)
    page.prose(LEFT, below + 60, 6, "jon", 470)
    assert "table" not in {region.kind for region in page.regions(tmp_path)}


def test_a_line_that_goes_on_with_a_sentence_is_no_caption(tmp_path: Path) -> None:
    page = paper()
    page.canvas.showPage()
    below = page.prose(LEFT, 80, 10, "kim")
    page.justified(LEFT, below, "The numbers of all boats are listed in the rows of")
    page.line(LEFT, below + 12, "Table 1. As it shows, there are more by day.")
    page.prose(LEFT, below + 24, 10, "lea")
    page.prose(RIGHT, 80, 20, "max")
    page.line(RIGHT, 350, "Table 2. Boats by night.")
    regions = page.regions(tmp_path)
    assert [region.text for region in regions if region.kind == "table_caption"] == ["Table 2. Boats by night."]
    assert "rows of Table 1. As it shows, there are more by day." in " ".join(region.text for region in regions)


@pytest.mark.parametrize("formula", ["max = b(i, j) + 2 c(j)", "S(j, i, t) p(b, a)", "loss(x) (7)"])
def test_a_formula_is_no_heading(tmp_path: Path, formula: str) -> None:
    page = paper()
    page.canvas.showPage()
    below = page.prose(LEFT, 80, 10, "ned")
    page.line(LEFT + 40, below + 14, formula, 13, "Times-Bold")
    page.prose(LEFT, below + 44, 10, "ole")
    page.line(LEFT, below + 190, "3 The ISO 9001 and PDF/A Tests", 12, "Times-Bold")
    page.prose(LEFT, below + 210, 10, "pia")
    titles = [region.text for region in page.regions(tmp_path) if region.kind == "title" and region.page == 2]
    assert titles == ["3 The ISO 9001 and PDF/A Tests"]


def test_the_parts_of_a_table_are_one_table(tmp_path: Path) -> None:
    page = Page()
    below = page.prose(LEFT, 80, 8, "quo", 470) + 20
    cells = [("Parser", "P", "R", "F"), ("Average", "87.1", "86.9", "87.0"), ("Best", "88.7", "88.5", "88.6")]
    parts = [cells, [("Oracle", "93.1", "92.9", "93.0"), ("Most precise", "100.0", "95.4", "97.6")]]
    parts += [[("Similarity", "89.5", "89.9", "89.7"), ("Constituents", "92.1", "88.7", "90.4")]]
    parts += [[("Bayes", "92.4", "90.1", "91.3"), ("Voting", "92.1", "89.4", "90.7")]]
    for number, part in enumerate(parts):
        if number == 2:
            page.line(LEFT + 40, below, "Without training")
            below += 14
        for row in part:
            for x, cell in zip((100, 240, 320, 400), row, strict=True):
                page.line(x, below, cell)
            below += 12
        below += 26 if number < 1 else 16
    page.prose(LEFT, below + 30, 8, "ray", 470)
    (table,) = [region for region in page.regions(tmp_path) if region.kind == "table"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        *map(list, [*parts[0], *parts[1]]), ["Without training", "", "", ""], *map(list, [*parts[2], *parts[3]]),
    ]  # fmt: skip


def test_a_table_within_a_form_that_is_moved_keeps_its_header(tmp_path: Path) -> None:
    page = paper()
    page.canvas.showPage()
    page.canvas.beginForm("sheet")
    for n, row in enumerate((("Index", "MAP"), ("BL", "0.1170"), ("CN", "0.1179"), ("GS", "0.1193"))):
        for x, cell in zip((LEFT + 5, LEFT + 65), row, strict=True):
            page.line(x, 200 + 14 * n, cell)
        for x in (LEFT, LEFT + 60, LEFT + 120):
            page.canvas.line(x, HEIGHT - 190 - 14 * n, x, HEIGHT - 204 - 14 * n)
    for n in range(5):
        page.canvas.line(LEFT, HEIGHT - 190 - 14 * n, LEFT + 120, HEIGHT - 190 - 14 * n)
    page.prose(LEFT, 300, 20, "ann")
    page.canvas.endForm()
    page.canvas.translate(0, 14)
    page.canvas.doForm("sheet")
    (table,) = (region for region in page.regions(tmp_path) if region.kind == "table")
    assert [[cell.text for cell in row] for row in table.rows][:2] == [["Index", "MAP"], ["BL", "0.1170"]]


def test_a_formula_of_several_lines_with_its_number_is_no_table(tmp_path: Path) -> None:
    page = paper()
    page.canvas.showPage()
    below = page.prose(LEFT, 80, 8, "ann") + 20
    for row in ("|Q| mj", "1 1", "MAP(Q) = |Q| X mj X P(Rjk)|(3)", "j=1 k=1"):
        for x, cell in zip((LEFT + 30, LEFT + 200), row.rsplit("|", 1) if "(3)" in row else [row], strict=False):
            page.line(x, below, cell)
        below += 12
    page.prose(LEFT, below + 20, 8, "cid")
    assert not [region for region in page.regions(tmp_path) if region.kind == "table"]
