"""Code taken from files beside a page: only what lies below the indexed folder, never in place of the page's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.loaders import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "secret.py": "key = 1\n",
        "site/docs_src/first.py": "one = 1\ntwo = 2\nthree = 3\n",
        "site/docs_src/.hidden.py": "key = 2\n",
        "site/docs_src/settings.toml": "key = 3\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "site" / "docs_src" / "way.py").symlink_to(tmp_path / "secret.py")
    return tmp_path / "site"


def page(folder: Path, line: str) -> str:
    path = folder / "docs" / "tutorial" / "first.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Before.\n\n{line}\n\nAfter.\n", encoding="utf-8")
    (document,) = load(path, "docs/tutorial/first.md")
    return document.text.partition("Before.\n\n")[2].partition("\n\nAfter.")[0]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("{* ../../docs_src/first.py *}", "```python\none = 1\ntwo = 2\nthree = 3\n```"),
        ("{* ../../../docs_src/first.py hl[2] *}", "```python\none = 1\ntwo = 2\nthree = 3\n```"),
        ("{* ../../docs_src/first.py ln[2:3] hl[2] *}", "```python\ntwo = 2\nthree = 3\n```"),
        ('--8<-- "docs_src/first.py"', "```python\none = 1\ntwo = 2\nthree = 3\n```"),
        ("```\n{* ../../docs_src/first.py *}\n```", "```\n{* ../../docs_src/first.py *}\n```"),
        ("{* ../../docs_src/gone.py *}", ""),
        ("{* ../../../secret.py *}", ""),
        ("{* ../../docs_src/way.py *}", ""),
        ("{* ../../docs_src/.hidden.py *}", ""),
        ("{* ../../docs_src/settings.toml *}", ""),
        ("{* /etc/passwd *}", ""),
    ],
)
def test_code_is_put_in_where_it_is_there_and_may_be(folder: Path, line: str, shown: str) -> None:
    assert page(folder, line) == shown
