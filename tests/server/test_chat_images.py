"""Images of documents: what a page shows below the indexed folder, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.chat.documents import read_image, shown_in

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("../images/a.png", True), ("b%20c.png", True), ("../../outside.png", False), ("link.png", False),
        ("../.git/a.png", False), ("page.md", False), ("/etc/passwd", False), ("gone.png", False), ("a\0.png", False),
    ],
)  # fmt: skip
def test_an_image_lies_below_the_indexed_folder(tmp_path: Path, name: str, found: bool) -> None:
    root = tmp_path / "site"
    for place in ("images/a.png", "guide/b c.png", ".git/a.png", "../outside.png"):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(PNG)
    (root / "guide" / "page.md").write_text("![a](x.png)", encoding="utf-8")
    (root / "guide" / "link.png").symlink_to(tmp_path / "outside.png")
    image = read_image(root / "guide" / "page.md", "guide/page.md", name)
    assert (image is not None) is found
    assert image is None or (image.data, image.media_type) == (PNG, "image/png")


def test_only_what_a_document_shows_can_be_asked_for() -> None:
    text = 'See ![a](images/a.png "A") and <img alt="b" src="b.jpg">, not [c](c.png).'
    assert shown_in(text) == {"images/a.png", "b.jpg"}
