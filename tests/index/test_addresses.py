"""Where a source is opened: its own address, at the sentence; nothing of a document becomes another address."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.collection import Collection
from index.documents import Document, Section
from index.indexer import index_paths
from index.loaders.addresses import addressed, page_address, spellings, write_addresses
from server.turn.answer import address_at
from tests.encoder import WordEncoder

PAGE = "https://docs.example.org/leave"
LONG = "Parental leave lasts ten weeks and may be taken in two parts, or as [one](https://x.example/)."


@pytest.mark.parametrize(
    ("quote", "fragment"),
    [
        ("It costs *nothing*.", "It%20costs%20nothing."),
        (LONG, "Parental%20leave%20lasts%20ten,parts%2C%20or%20as%20one."),
        ("- Use `--no-cache`, always", "Use%20%2D%2Dno%2Dcache%2C%20always"),
        ("| Kind | A rather long cell |", "A%20rather%20long%20cell"),
        ("## Fees\n\nThe fee is 5 & more.", "Fees,is%205%20%26%20more."),
        (r"snake_case and \_escaped\_ stay", "snake_case%20and%20_escaped_%20stay"),
    ],
)
def test_the_words_of_a_sentence_are_looked_for_without_its_markup(quote: str, fragment: str) -> None:
    assert address_at(PAGE, quote) == f"{PAGE}#:~:text={fragment}"


def test_a_place_within_a_page_and_a_page_of_a_pdf_are_kept() -> None:
    assert address_at(f"{PAGE}#fees", "It costs.") == f"{PAGE}#fees:~:text=It%20costs."
    assert address_at(f"{PAGE}.pdf", "It costs.", 7) == f"{PAGE}.pdf#page=7"
    assert address_at(f"{PAGE}#fees", "---") == f"{PAGE}#fees"


@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "guide.md", 'https://x.example/"><script>', "data:text/html,x"]
)
def test_what_is_no_web_address_is_no_link(source: str) -> None:
    assert address_at(source, "It costs nothing.") == ""


def document(form: str, source: str) -> Document:
    return Document("a", "A", "Text.", (Section((), 0, 5),), {"source": source, "format": form})


def test_the_address_of_the_source_goes_before_what_a_page_says_of_itself() -> None:
    about = {"url": PAGE, "title": "Leave", "changed": "2026-11-22"}
    told = addressed(document("html", "https://evil.example/"), about)
    assert (told.metadata["source"], told.metadata["changed"], told.title) == (PAGE, "2026-11-22", "Leave")
    assert addressed(document("markdown", "https://own.example/"), about).metadata["source"] == "https://own.example/"
    assert addressed(document("markdown", "a.md"), {"url": "javascript:x"}).metadata["source"] == "a.md"


def test_another_address_is_indexed_anew_and_a_damaged_note_is_none(tmp_path: Path, words: WordEncoder) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nIt costs nothing.\n", "utf-8")
    write_addresses(folder, {"a.md": {"url": PAGE}})

    def statuses() -> list[str]:
        return [file.status for file in index_paths(tmp_path, "docs", [folder], words).files]

    assert (statuses(), statuses()) == (["indexed"], ["unchanged"])
    write_addresses(folder, {"a.md": {"url": f"{PAGE}/new"}})
    assert statuses() == ["indexed"]
    (folder / ".addresses.json").write_text('{"a.md": 5', "utf-8")
    assert statuses() == ["indexed"]


@pytest.mark.parametrize(
    ("site", "path", "address"),
    [
        ("https://x.example/docs", "use/start.md", "https://x.example/docs/use/start/"),
        ("https://x.example/docs/", "use/index.md", "https://x.example/docs/use/"),
        ("https://x.example/", "README.md", "https://x.example/"),
        ("https://x.example/{page}.html", "use/start.rst", "https://x.example/use/start.html"),
        ("https://x.example/{page}.html", "index.rst", "https://x.example/"),
        ("https://x.example/blob/{path}", "use/index.md", "https://x.example/blob/use/index.md"),
        ("https://x.example", "a b/ü?#.md", "https://x.example/a%20b/%C3%BC%3F%23/"),
    ],
)
def test_a_page_is_live_where_its_generator_puts_it(site: str, path: str, address: str) -> None:
    assert page_address(site, path) == address


def test_a_page_is_known_by_all_spellings_of_its_address() -> None:
    page = "https://x.example/use/start"
    wanted = [f"{page}/", page, f"{page}.html", f"{page}/index.html"]
    for url in (*wanted, f"{page}/?a=b", f"{page}.htm#part"):
        assert spellings(url) == wanted
    assert "https://x.example/" in spellings("https://x.example")
    assert spellings("file:///etc/passwd") == spellings("") == []


def test_files_of_a_folder_with_a_site_are_opened_there(tmp_path: Path, words: WordEncoder) -> None:
    for name in ("docs/use/start.md", "other/a.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("# A\n\nIt costs nothing.\n", "utf-8")
    folders = [tmp_path / "docs", tmp_path / "other"]

    def sources(sites: dict[str, str]) -> dict[str, object]:
        index_paths(tmp_path / "home", "docs", folders, words, site_urls=sites)
        collection = Collection.open(tmp_path / "home", "docs", words)
        return {info.id: collection.document(info.id).metadata["source"] for info in collection.documents()}

    site = {str(tmp_path / "docs"): "https://x.example/docs", str(tmp_path / "docs" / "none"): "https://y.example"}
    assert sources(site) == {"use/start.md": "https://x.example/docs/use/start/", "a.md": "a.md"}
    assert sources({}) == {"use/start.md": "use/start.md", "a.md": "a.md"}


def test_folders_of_a_site_name_metadata_that_front_matter_goes_before(tmp_path: Path, words: WordEncoder) -> None:
    for place in ("9.2/en/a.md", "10.0/de/b.md", "top.md"):
        path = tmp_path / "docs" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            ("---\nlanguage: fr\n---\n" if "b.md" in place else "") + "# A\n\nLeave lasts ten weeks.\n", "utf-8"
        )
    folder = tmp_path / "docs"
    sites = {
        f"{folder}/{{version}}/{{language}}": "https://{language}.x.example/v{version}",
        str(folder): "https://x.example",
    }
    for expected in ("indexed", "unchanged"):
        report = index_paths(tmp_path / "home", "docs", [folder], words, site_urls=sites)
        assert {file.status for file in report.files} == {expected}
    collection = Collection.open(tmp_path / "home", "docs", words)
    found = {info.id: collection.document(info.id).metadata for info in collection.documents()}
    told = {name: [values.get(key) for key in ("source", "version", "language")] for name, values in found.items()}
    assert told == {
        "9.2/en/a.md": ["https://en.x.example/v9.2/a/", "9.2", "en"],
        "10.0/de/b.md": ["https://de.x.example/v10.0/b/", "10.0", "fr"],
        "top.md": ["https://x.example/top/", None, None],
    }
    (file,) = [
        file for file in index_paths(tmp_path / "home", "docs", [folder / "9.2"], words).files if "a.md" in file.path
    ]
    assert file.status == "indexed", "without the names it has other metadata"
