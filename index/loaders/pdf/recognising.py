"""Text of pages that are pictures (OCR): by the program Tesseract or, where it is missing, the package `rapidocr`.

Both give words with boxes, so that one layout analysis serves. Tesseract runs as a process of its own; the package
(extra `ocr`) runs here, line by line, and its models come with it.
"""

from __future__ import annotations

import ctypes
import html
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from index.loaders.pdf.glyphs import PageWord, PageWords
from index.loaders.reading import RAPIDOCR

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_READABLE = (
    "afr aze bos cat ces chi_sim chi_tra cym dan deu eng est eus fin fra gle glg hrv hun ind isl ita jpn kmr lat lav "
    "lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa sqi srp_latn swa swe tgl tur uzb vie"
)
"""Languages that the package reads, as Tesseract names them: those in Latin script, Chinese and Japanese."""
_DPI = 300
_MOST_PIXELS = 16_000_000
_LONGEST = 2000
"""Pixels of a page's longer edge, as the package's models take it."""
_PR_SET_PDEATHSIG = 1
_SURE = 30
"""Words of which Tesseract is less sure, from 0 to 100, are specks."""
_SURE_LINE = 0.5
"""Lines of which the package is less sure, from 0 to 1, are specks."""
_LINE = re.compile(
    r"<span class='ocr_(?:line|header|caption|textfloat)'[^>]*title=\"bbox \d+ \d+ \d+ (\d+); "
    r"baseline (-?[\d.]+) (-?[\d.]+); x_size ([\d.]+); x_descenders ([\d.]+)"
)
_WORD = re.compile(
    r"<span class='ocrx_word'[^>]*title='bbox (\d+) (\d+) (\d+) (\d+); x_wconf (\d+)[^>]*>(.*?)</span>", re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Recogniser:
    """Reads pages by `program`, which `index.loaders.reading.find_recogniser` gives, in `languages`, such as `eng+deu`.

    All pages of a file may take `seconds`, and a page that Tesseract reads `page_seconds`; `working` is called before
    each step that may take a while.
    """

    program: str = ""
    languages: str = "eng"
    seconds: float = 300.0
    page_seconds: float = 60.0
    working: Callable[[], None] = lambda: None

    def until(self) -> float:
        """When the time of a file that is begun now is over (`time.monotonic`)."""
        return time.monotonic() + self.seconds

    @property
    def name(self) -> str:
        """Name of the program or package that reads, for messages."""
        return f"the package {RAPIDOCR}" if self.program == RAPIDOCR else "Tesseract"

    @property
    def problem(self) -> str:
        """Why no page can be read, and what to do; empty where pages can be."""
        if not self.languages:
            return "recognising text is off (index.ocr_languages is empty)"
        if not self.program:
            return (
                "Tesseract, which would recognise their text, is not installed: install it, or the extra `ocr` "
                "(`make install EXTRAS=ocr`), and index the file again"
            )
        foreign = set(self.languages.lower().split("+")) - set(_READABLE.split())
        if foreign and self.program == RAPIDOCR:
            return (
                f"{self.name} does not read {', '.join(sorted(foreign))} (index.ocr_languages): "
                "install Tesseract and index the file again"
            )
        return ""

    @property
    def lacking(self) -> str:
        """Why pages are left unread, and what to do."""
        remedy = "see that the languages of index.ocr_languages are installed"
        if self.program == RAPIDOCR:
            remedy = "install Tesseract, which is faster"
        return self.problem or (
            f"{self.name} could not read them ({self.languages}), or not within {self.seconds:g} seconds: {remedy}, "
            "or run text recognition (OCR) over the file first"
        )

    def read(self, page: PdfPage, words: PageWords, until: float) -> bool:
        """Put the words of a page that is a picture into `words`; whether it was read."""
        if self.problem or until <= time.monotonic():
            return False
        self.working()
        if self.program == RAPIDOCR:
            return self._read_by_package(page, words, until)
        return self._read_by_tesseract(page, words, min(self.page_seconds, until - time.monotonic()))

    def _read_by_tesseract(self, page: PdfPage, words: PageWords, seconds: float) -> bool:
        scale = min(_DPI / 72, (_MOST_PIXELS / max(1.0, words.width * words.height)) ** 0.5)
        rows = _picture(page, scale)
        picture = b"P5 %d %d 255\n" % rows.shape[::-1] + rows.tobytes()
        command = [self.program, "stdin", "stdout", "-l", self.languages, "--dpi", str(round(72 * scale)), "hocr"]
        try:
            completed = subprocess.run(
                command,
                input=picture,
                capture_output=True,
                timeout=seconds,
                check=True,
                # Its threads wait for each other in circles, which on a busy machine takes several times as long.
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                preexec_fn=_end_with_worker,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return False
        words.words = recognised(completed.decode("utf-8", "replace"), 1 / scale)
        return True

    def _read_by_package(self, page: PdfPage, words: PageWords, until: float) -> bool:
        scale = min(_DPI / 72, _LONGEST / max(1.0, words.width, words.height))
        try:
            from rapidocr.utils.process_img import get_rotate_crop_image

            engine, rows = _engine(), _picture(page, scale)
            boxes = engine(rows, use_det=True, use_cls=False, use_rec=False).boxes
            upright, aside = list[PageWord](), list[PageWord]()
            for corners in () if boxes is None else boxes:
                if until <= time.monotonic():
                    return False
                self.working()
                # A line that is higher than wide comes turned by a quarter.
                line = get_rotate_crop_image(rows, corners)
                found = engine(line, use_det=False, use_cls=False, use_rec=True, return_word_box=True)
                if found.scores[0] >= _SURE_LINE:
                    turned = abs(corners[3] - corners[0]).max() >= 1.5 * abs(corners[1] - corners[0]).max()
                    parts = found.word_results[0]
                    line_words = words_of_line(parts.words, parts.word_cols, parts.line_txt_len, corners / scale)
                    (aside if turned else upright).extend(line_words)
        except Exception:  # noqa: BLE001  whatever its libraries raise: this page stays unread, and the others are read
            return False
        words.words, words.aside = upright, aside
        return True


def _picture(page: PdfPage, scale: float) -> Any:
    """The page in shades of grey, so many pixels a point, as rows of bytes."""
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    return bitmap.to_numpy().reshape(bitmap.height, -1)[:, : bitmap.width]


@cache
def _engine() -> Any:
    """The package's models, loaded, on one thread."""
    import cv2
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    # A page comes in the size that it is read in, and a narrow one is not made larger.
    size = {"Global.use_preprocess_img": False, "Det.limit_type": "max", "Det.limit_side_len": _LONGEST}
    return RapidOCR(params={"Global.log_level": "critical", **size, **threads})


def _end_with_worker() -> None:
    """Ask the kernel, where it can, to kill this process with its parent, which may be killed at any moment."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def words_of_line(
    words: Sequence[Sequence[str]], columns: Sequence[Sequence[int]], count: float, corners: Sequence[Sequence[float]]
) -> list[PageWord]:
    """The words of a line whose corners are given from the upper left clockwise.

    The line was read in `count` columns of the same width; `columns` are those in which the middles of
    the words' letters stand.
    """
    (x0, top), (x1, top_end), _, (_, bottom) = ((float(x), float(y)) for x, y in corners)
    found = []
    for letters, places in zip(words, columns, strict=True):
        letter = (places[-1] - places[0]) / max(1, len(places) - 1) or 2.0
        start = max(0.0, (places[0] + 0.5 - letter / 2) / count)
        end = min(1.0, (places[-1] + 0.5 + letter / 2) / count)
        down = (top_end - top) * (start + end) / 2
        box = (x0 + (x1 - x0) * start, top + down, x0 + (x1 - x0) * end, bottom + down)
        found.append(PageWord("".join(letters), *box))
    return found


def recognised(hocr: str, scale: float) -> list[PageWord]:
    """The words of a page in hOCR, whose pixels are `scale` points; all of a line are as high as its letters can be."""
    words: list[PageWord] = []
    starts = list(_LINE.finditer(hocr))
    for line, following in zip(starts, [*starts[1:], None][: len(starts)], strict=True):
        bottom, slope, offset, size, descenders = map(float, line.groups())
        for word in _WORD.finditer(hocr, line.end(), following.start() if following else len(hocr)):
            x0, _, x1, _, sure = map(int, word.groups()[:5])
            text = html.unescape(_TAG.sub("", word[6])).strip()
            if text and sure >= _SURE:
                y1 = bottom + offset + slope * x0 + descenders
                box = (x0 * scale, (y1 - size) * scale, x1 * scale, y1 * scale)
                words.append(PageWord("".join(text.split()), *box))
    return words
