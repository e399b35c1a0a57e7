"""The words of a page that is a picture, as Tesseract recognises them; where it is not installed there are none.

It is a program of its own, which a worker of `index.loaders.sandbox` starts under its own limits. It is given a picture
of the page and answers through a pipe.
"""

from __future__ import annotations

import ctypes
import html
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from index.loaders.pdf.glyphs import PageWord, PageWords

if TYPE_CHECKING:
    from pypdfium2 import PdfPage  # type: ignore[import-untyped]

_DPI = 300
_MOST_PIXELS = 16_000_000
_PR_SET_PDEATHSIG = 1
_SURE = 30
"""Words of which Tesseract is less sure, from 0 to 100, are specks."""
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
    """Reads pages by the program `tesseract` (its path, empty where there is none) in `languages`, such as `eng+deu`.

    A page may take `page_seconds`, and all of a file `seconds`; `working` is called before each.
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
    def lacking(self) -> str:
        """Why pages are left unread, and what to do."""
        if not self.seconds:
            return "recognising text is off (index.pdf.ocr_seconds = 0)"
        if not self.program:
            return "Tesseract, which would recognise their text, is not installed: install it and index the file again"
        return (
            f"Tesseract could not read them ({self.languages}) within {self.seconds:g} seconds: raise "
            "index.pdf.ocr_seconds, see that the languages of index.pdf.ocr_languages are installed, or run text "
            "recognition (OCR) over the file first"
        )

    def read(self, page: PdfPage, found: PageWords, until: float) -> bool:
        """Put the words of a page that is a picture into `found`; whether it was read."""
        left = min(self.page_seconds, until - time.monotonic())
        if not self.program or not self.seconds or left <= 0:
            return False
        self.working()
        scale = min(_DPI / 72, (_MOST_PIXELS / max(1.0, found.width * found.height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
        rows = bitmap.to_numpy().reshape(bitmap.height, -1)[:, : bitmap.width]
        picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + rows.tobytes()
        command = [self.program, "stdin", "stdout", "-l", self.languages, "--dpi", str(round(72 * scale)), "hocr"]
        try:
            said = subprocess.run(
                command,
                input=picture,
                capture_output=True,
                timeout=left,
                check=True,
                # Its threads wait for each other in circles, which on a busy machine takes several times as long.
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                preexec_fn=_end_with_worker,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return False
        found.words = recognised(said.decode("utf-8", "replace"), 1 / scale)
        return True


def _end_with_worker() -> None:
    """Ask the kernel, where it can, to kill this process with its parent, which may be killed at any moment."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def recognised(hocr: str, scale: float) -> list[PageWord]:
    """The words of a page in hOCR, whose pixels are `scale` points; all of a line are as high as its letters can be."""
    words: list[PageWord] = []
    starts = list(_LINE.finditer(hocr))
    for line, following in zip(starts, [*starts[1:], None], strict=True):
        bottom, slope, offset, size, descenders = map(float, line.groups())
        for word in _WORD.finditer(hocr, line.end(), following.start() if following else len(hocr)):
            x0, _, x1, _, sure = map(int, word.groups()[:5])
            text = html.unescape(_TAG.sub("", word[6])).strip()
            if text and sure >= _SURE:
                y1 = bottom + offset + slope * x0 + descenders
                box = (x0 * scale, (y1 - size) * scale, x1 * scale, y1 * scale)
                words.append(PageWord("".join(text.split()), *box))
    return words
