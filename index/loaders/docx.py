"""DOCX: headings, lists, tables and text; pictures are left out.

mammoth turns the file into HTML by its styles, `index.loaders.html` turns that into Markdown. The unpacked size of the
archive is checked before anything is unpacked.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from xml.parsers.expat import ExpatError

from index.documents import Document
from index.errors import LoadError
from index.loaders.html import from_html
from index.loaders.reading import MEBIBYTE, read_bytes

_MAX_MEMBERS = 10_000
_MAX_XML = 128 * MEBIBYTE
_OLD_WORD = b"\xd0\xcf\x11\xe0"


def load(path: Path, document_id: str, max_bytes: int) -> list[Document]:
    """One document. Raises LoadError for what is no DOCX, is encrypted, broken, a zip bomb or empty."""
    import mammoth  # type: ignore[import-untyped]

    data = read_bytes(path, max_bytes)
    if data.startswith(_OLD_WORD):
        raise LoadError(f"{path.name} is encrypted or in the old Word format: save it as an open .docx file")
    try:
        _check(data, path.name)
        html = mammoth.convert_to_html(
            io.BytesIO(data),
            convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
            style_map="p[style-name='Title'] => h1:fresh\np[style-name='Code'] => pre:separator('\\n')",
        ).value
    except LoadError:
        raise
    except (zipfile.BadZipFile, ExpatError, KeyError, ValueError, AttributeError, IndexError, NotImplementedError,
            EOFError, OSError, RecursionError) as error:  # fmt: skip
        raise LoadError(
            f"{path.name} is broken: it is no DOCX that can be read ({type(error).__name__}: {error}); "
            "open it in a word processor and save it anew"
        ) from error
    nothing = "holds no text, only pictures or nothing: index a version with text"
    return from_html(html, document_id, path, "docx", nothing)


def _check(data: bytes, name: str) -> None:
    """Refuse archives that would fill the memory; zipfile never unpacks more than is declared."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members if not member.filename.startswith("word/media/"))
        if len(members) > _MAX_MEMBERS or unpacked > _MAX_XML:
            raise LoadError(
                f"{name} would unpack to {unpacked / MEBIBYTE:.0f} MiB in {len(members)} parts, above the limit of "
                f"{_MAX_XML // MEBIBYTE} MiB and {_MAX_MEMBERS}: it looks like a zip bomb; split it if it is not"
            )
        if "word/document.xml" not in archive.namelist() and "[Content_Types].xml" not in archive.namelist():
            raise LoadError(f"{name} is a zip archive but no Word document: give it its right ending or exclude it")
