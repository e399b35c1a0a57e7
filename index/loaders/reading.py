"""Reading a file that may be anything: size limits, character sets, what is not text at all; and plain text.

Every loader reads through here, so that a file's bytes are checked once and in one way. The meaning of the text is left
to the format's own module.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import BinaryIO

from index.documents import Document, Section
from index.errors import LoadError
from text.sanitize import masked
from text.sentences import trim

MEBIBYTE = 1024 * 1024
_MAX_TITLE = 300

RAPIDOCR = "rapidocr"
"""The package that reads pages that are pictures where Tesseract is missing."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Enough to tell a charset by; detection is far slower than decoding.
_SAMPLE = 64 * 1024
# And what stands for bytes that are no characters.
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")


def find_recogniser() -> str:
    """The path of Tesseract, else RAPIDOCR if that package is installed, else an empty string."""
    return which("tesseract") or (RAPIDOCR if find_spec(RAPIDOCR) else "")


@contextmanager
def opened(path: Path, max_bytes: int) -> Iterator[BinaryIO]:
    """The file, open for reading; too large, empty, missing or odd ones raise LoadError instead."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise LoadError(f"{path.name} is a folder, not a file: give the folder itself to be walked")
        if not stat.S_ISREG(status.st_mode):
            raise LoadError(f"{path.name} is not an ordinary file (a device, pipe or socket): remove it or exclude it")
        if status.st_size > max_bytes:
            raise LoadError(
                f"{path.name} is {status.st_size / MEBIBYTE:.0f} MiB, above the limit of {max_bytes / MEBIBYTE:g} MiB: "
                "split the file, or raise `index.max_file_mb`"
            )
        if status.st_size == 0:
            raise LoadError(f"{path.name} is empty (0 bytes): fill it or exclude it")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise LoadError(_reason(path, error)) from error


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The whole file, at most `max_bytes` of it even where it grows meanwhile. Raises LoadError."""
    with opened(path, max_bytes) as file:
        return file.read(max_bytes)


def read_text(path: Path, max_bytes: int) -> str:
    """The file as clean text (see `clean`), its character set detected. Raises LoadError for binary content."""
    return clean(decode(read_bytes(path, max_bytes), path.name))


def decode(data: bytes, name: str, declared: str | None = None) -> str:
    """`data` as text: by byte order mark, else as `declared`, UTF-8, or by detection.

    Raises LoadError for binary content.
    """
    text = next((data.decode(encoding, "replace") for mark, encoding in _BOMS if data.startswith(mark)), None)
    if declared and declared.lower().startswith(("utf-16", "utf-32")):
        declared = None  # it could not be read out of the bytes, were it so
    for encoding in (declared, "utf-8"):
        if text is None and encoding:
            with suppress(UnicodeDecodeError, LookupError):
                text = data.decode(encoding)
    if text is None or not _is_text(text):
        from charset_normalizer import from_bytes

        best = from_bytes(data[:_SAMPLE]).best()
        text = data.decode(best.encoding, "replace") if best else text
    if text is None or not _is_text(text):
        raise LoadError(
            f"{name} does not hold text: its content is binary or in an unknown character set; "
            "save it as UTF-8, give it its right file ending, or exclude it"
        )
    return text


def clean(text: str) -> str:
    """``\\n`` line ends, and U+FFFD for what no store can hold or is unsafe to show (see `text.sanitize`)."""
    for line_end in ("\r\n", "\r", "\v", "\f", "\x85"):
        text = text.replace(line_end, "\n")
    return masked(text.removeprefix("\ufeff"))


def one_line(text: str, limit: int = _MAX_TITLE) -> str:
    """`text` with runs of white space made one blank, cut at `limit` characters: a title or heading."""
    text = " ".join(clean(text[: 8 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def title_from_name(name: str) -> str:
    """Return a title for a document without one: its file name without ending, dashes as blanks."""
    stem = Path(name).stem
    return one_line(stem.replace("_", " ").replace("-", " ")) or one_line(name)


def _is_text(text: str) -> bool:
    sample = text[:_SAMPLE]
    return len(_CONTROLS.findall(sample)) * 100 <= len(sample)


def _reason(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path.name} is not there (any more): it was moved or deleted; index again once it is back"
    if isinstance(error, PermissionError):
        return f"{path.name} may not be read: give this user permission, or exclude it"
    if error.errno == errno.ELOOP:
        return f"{path.name} is a symbolic link that leads back to itself: mend or remove it"
    return f"{path.name} could not be read: {os.strerror(error.errno) if error.errno else error}; check the disk"


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """A plain text as one document, with a section for each page where form feeds part them.

    Raises LoadError where the file cannot be read, is binary or blank.
    """
    pages = [clean(page) for page in decode(read_bytes(path, max_bytes), path.name).split("\f")]
    sections = tuple(_sections(pages))
    if not sections:
        raise LoadError(f"{path.name} holds nothing but white space: fill it or exclude it")
    metadata = {"source": document_id, "format": "text"}
    return [Document(document_id, title_from_name(path.name), "\n".join(pages), sections, metadata)]


def _sections(pages: list[str]) -> Iterator[Section]:
    start = 0
    for number, page in enumerate(pages, 1):
        begin, end = trim(page, 0, len(page))
        if begin < end:
            yield Section((), start + begin, start + end, number if len(pages) > 1 else None)
        start += len(page) + 1
