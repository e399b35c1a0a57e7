"""Walking folders and loading whatever lies in them: order, patterns, links, and files that are no documents."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from index.errors import LoadError
from index.loaders import load, suffixes, walk
from tests.scanning import scan


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# T\n\nSome words.\n", encoding="utf-8")


def ids(*paths: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    return [source.document_id for source in walk(paths, include, exclude)]


def test_files_come_folder_by_folder_and_hidden_ones_not_at_all(tmp_path: Path) -> None:
    fill(tmp_path, "b.md", "a/z.txt", "a/b/c.RST", "a-b.md", ".hidden.md", ".git/x.md", "a/.venv/y.md", "pic.png")
    fill(tmp_path, "node_modules/pkg/README.md", "queries.jsonl", "my_corpus.jsonl")
    assert ids(tmp_path) == ["a/b/c.RST", "a/z.txt", "a-b.md", "b.md", "my_corpus.jsonl"]


def test_an_empty_folder_yields_nothing(tmp_path: Path) -> None:
    assert list(scan([tmp_path])) == []


def test_patterns_are_gitignore_style(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "b.txt", "docs/a.md", "docs/old/b.md", "docs/old/keep.md", "x.jsonl")
    assert ids(tmp_path, include=("*.md",)) == ["a.md", "docs/a.md", "docs/old/b.md", "docs/old/keep.md"]
    assert ids(tmp_path, include=("/docs/**", "*.jsonl"), exclude=("old/",)) == ["docs/a.md", "x.jsonl"]
    assert ids(tmp_path, exclude=("docs/old/*", "!keep.md", "*.txt")) == ["a.md", "docs/a.md", "docs/old/keep.md"]


def test_a_file_given_by_name_is_named_by_it_and_taken_once(tmp_path: Path) -> None:
    fill(tmp_path, "docs/a.md", ".hidden/b.md")
    assert ids(tmp_path / "docs" / "a.md", tmp_path / "docs", tmp_path / ".hidden") == ["a.md", "b.md"]


def test_the_same_path_below_two_folders_gets_two_ids(tmp_path: Path) -> None:
    fill(tmp_path, "one/index.md", "two/index.md", "x/two/index.md")
    assert ids(tmp_path / "one", tmp_path / "two", tmp_path / "x" / "two") == [
        "index.md", "two/index.md", "two (2)/index.md",
    ]  # fmt: skip


def test_links_lead_nowhere_twice_and_never_out_of_the_folder(tmp_path: Path) -> None:
    fill(tmp_path, "docs/real.md", "docs/sub/deep.md", "docs/..data/mounted.md", "secret.md")
    docs = tmp_path / "docs"
    (docs / "alias.md").symlink_to("real.md")
    (docs / "sub" / "loop").symlink_to("..", target_is_directory=True)
    (docs / "self.md").symlink_to("self.md")
    (docs / "out.md").symlink_to("../secret.md")
    (docs / "outside").symlink_to("..", target_is_directory=True)
    (docs / "mounted.md").symlink_to("..data/mounted.md")
    found = {loaded.source.document_id: loaded.error for loaded in scan([docs])}
    assert found.pop("self.md") == "self.md is a symbolic link that leads back to itself: mend or remove it"
    assert found == {"mounted.md": None, "real.md": None, "sub/deep.md": None}


def test_a_name_that_is_no_text_gets_an_id_that_is(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("Words.")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xea.pdf")).write_text("Words.")
    first, second = scan([tmp_path])
    assert first.documents[0].id == "caf\\xe9.md"
    assert first.documents[0].title == "caf\ufffd"
    assert second.error is not None


def test_one_failing_file_never_stops_the_rest(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "z.md", "old.doc")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 nothing")
    (tmp_path / "empty.md").touch()
    (tmp_path / "binary.md").write_bytes(os.urandom(4000))
    (tmp_path / "zeros.txt").write_bytes(bytes(4000))
    os.mkfifo(tmp_path / "pipe.md")
    found = {loaded.source.document_id: loaded for loaded in scan([tmp_path, tmp_path / "gone.md"])}
    assert [name for name, loaded in found.items() if loaded.error is None] == ["a.md", "z.md"]
    for name, words in {
        "broken.pdf": "is broken",
        "broken.docx": "is broken",
        "empty.md": "is empty (0 bytes)",
        "binary.md": "does not hold text",
        "zeros.txt": "does not hold text",
        "pipe.md": "is not an ordinary file",
        "old.doc": "there is no loader for .doc",
        "gone.md": "is not there",
    }.items():
        assert words in str(found[name].error), found[name].error
        assert found[name].documents == []


def test_a_file_deleted_while_indexing_is_told_and_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", "b.md", "c.md")
    found = scan([tmp_path])
    assert next(found).error is None
    (tmp_path / "b.md").unlink()
    assert [(loaded.source.document_id, loaded.error is None) for loaded in found] == [("b.md", False), ("c.md", True)]


def test_a_text_of_200_mb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    tracemalloc.start()
    try:
        with pytest.raises(LoadError, match=r"huge\.txt is 200 MiB, above the limit of 64 MiB: .*max_file_mb"):
            load(path, "huge.txt")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    fill(tmp_path, "a.md")
    (tmp_path / "a.md").chmod(0)
    with pytest.raises(LoadError, match="may not be read"):
        load(tmp_path / "a.md", "a.md")


@pytest.mark.parametrize("suffix", sorted(suffixes()))
def test_no_content_whatsoever_raises_anything_but_load_error(tmp_path: Path, suffix: str) -> None:
    contents = [b"", b"\x00", b"\xff\xfe", b"\xff\xfe\x00", b"PK\x05\x06" + bytes(18), b"%PDF", b"\n" * 99, bytes(999)]
    contents += [b"\xd0\xcf\x11\xe0" + bytes(99), b"{}", b"null\n1\n", b"<", b"---\n", b"a" * 20_000, b"\x1f\x8b\x08"]
    for number, content in enumerate(contents):
        (tmp_path / f"{number:02}{suffix}").write_bytes(content)
    found = list(scan([tmp_path], include=("*",)))
    assert len(found) == len(contents)
    for loaded in found:
        if loaded.error is None:
            assert loaded.documents[0].text.strip()
        else:
            assert loaded.source.path.name in loaded.error
            assert len(loaded.error) < 1000


def test_a_folder_given_as_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "x.md").mkdir()
    with pytest.raises(LoadError, match="is a folder"):
        load(tmp_path / "x.md", "x.md")
