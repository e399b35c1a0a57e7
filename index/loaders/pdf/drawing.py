"""A page as a picture. It is drawn by a worker of `index.loaders.sandbox`, as everything that opens a file is."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from index.errors import LoadError
from index.loaders.pdf.loading import opened_pdf

_MOST_PIXELS = 8_000_000


def drawn(path: Path, page: int, width: int, max_bytes: int) -> dict[str, object]:
    """The page of this number, from 1, so many pixels wide, as JSON. Raises LoadError."""
    import pypdfium2  # type: ignore[import-untyped]

    with opened_pdf(path, max_bytes) as pdf:
        if not 1 <= page <= len(pdf):
            return {"missing": f"{path.name} has {len(pdf)} pages, and none of number {page}"}
        try:
            sheet = pdf[page - 1]
            across, down = sheet.get_size()
            scale = min(width / across, (_MOST_PIXELS / (across * down)) ** 0.5)
            image = sheet.render(scale=scale, may_draw_forms=False).to_pil()
        except pypdfium2.PdfiumError as error:
            raise LoadError(f"{path.name}: page {page} cannot be drawn ({error})") from error
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"png": base64.b64encode(buffer.getvalue()).decode(), "width": across, "height": down}
