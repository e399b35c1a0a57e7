"""Zip archives of documents, handed in over HTTP: unpacked, replaced as a whole, and hostile ones refused."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from server.chat.uploads import MOST_FILES, Room, Uploads
from tests.server.test_api_documents import best, ids, upload

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001"
    "e221bc330000000049454e44ae426082"
)
HANDBOOK = ["leave.md", "security.md", "travel.md"]
KNOWN = frozenset({".md", ".pdf", ".txt"})


def packed(members: Mapping[str, bytes | str], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=kind)
    return data.getvalue()


def refused(client: Any, content: bytes, name: str = "x.zip") -> dict[str, Any]:
    answer = client.post("/v1/collections/docs/documents", files={"file": (name, content)})
    error: dict[str, Any] = answer.json()["error"]
    assert answer.status_code == (413 if error["code"] == "too_large" else 400), answer.text
    return error


def test_documents_of_an_archive_are_indexed_found_and_replaced_as_a_whole(running: Any) -> None:
    uploads = running.service.settings.home / "uploads"
    first = {
        "parking/guide/cellar.md": "# Cellar\n\nBicycles are parked in the cellar. ![Rack](../rack.png)\n",
        "parking/roof.md": "# Roof\n\nTandems are parked on the roof.\n",
        "parking/rack.png": PNG,
        "parking/empty.md": "",
        "parking/tool.exe": "MZ",
        "parking/.hidden.md": "hidden",
        "__MACOSX/parking/roof.md": "rubbish",
    }
    with running.client() as client:
        job = upload(running, client, "parking.zip", packed(first))
        assert (job.state, {file.document_id: file.status for file in job.files}) == (
            "done",
            {"uploads/parking/guide/cellar.md": "indexed", "uploads/parking/roof.md": "indexed"},
        )
        assert best(client, "where do tandems go") == "uploads/parking/roof.md"
        image = client.get(
            "/v1/collections/docs/images/uploads/parking/guide/cellar.md", params={"name": "../rack.png"}
        )
        assert (image.status_code, image.content) == (200, PNG)
        assert not list(uploads.rglob("*.exe")) + list(uploads.rglob(".*"))

        second = {"parking/roof.md": "# Roof\n\nUnicycles are parked on the roof.\n"}
        job = upload(running, client, "parking.zip", packed(second))
        assert sorted((file.document_id, file.status) for file in job.files) == [
            ("uploads/parking/guide/cellar.md", "deleted"),
            ("uploads/parking/roof.md", "indexed"),
        ]
        assert ids(client) == [*HANDBOOK, "uploads/parking/roof.md"]
        removed = client.delete("/v1/collections/docs/documents/uploads/parking/roof.md")
        assert running.finished(removed.json()["id"]).state == "done"
        assert ids(client) == HANDBOOK
    rows = running.service.core.database.read_blocking(
        lambda connection: connection.exec_driver_sql("SELECT name FROM uploads").fetchall()
    )
    assert rows == []


def test_no_path_of_an_archive_leads_out_of_its_folder(running: Any) -> None:
    home = running.service.settings.home
    before = {path for path in home.parent.rglob("*.md") if "uploads" not in path.parts}
    names = (
        "../../../evil.md", "/etc/absolute.md", "C:\\windows\\drive.md", "a/../../dots.md", "con/aux.md",
        "a\x01b/\u202ec.md", "/".join(["deep"] * 30) + "/x.md", "x" * 300 + "/" + "y" * 300 + ".md", "..md",
        "a:b.md",
    )  # fmt: skip
    members: dict[str, bytes | str] = {name: f"# Page\n\nThis is page {n}.\n" for n, name in enumerate(names)}
    link = zipfile.ZipInfo("link.md")
    link.external_attr = 0o120777 << 16
    data = io.BytesIO(packed(members))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with running.client() as client:
        job = upload(running, client, "odd.md.zip", data.getvalue())
    assert job.state == "done"
    root = (home / "uploads" / "docs" / "uploads" / "odd-md").resolve()
    kept = [path for path in root.rglob("*") if path.is_file() or path.is_symlink()]
    assert not any(path.is_symlink() for path in kept)
    assert {path.relative_to(root).as_posix() for path in kept} >= {
        "etc/absolute.md", "windows/drive.md", "_con/_aux.md", "a b/c.md", "b.md", "link.md",
    }  # fmt: skip
    assert {path for path in home.parent.rglob("*.md") if "uploads" not in path.parts} == before


def encrypted() -> bytes:
    data = bytearray(packed({"a.md": "words"}, zipfile.ZIP_STORED))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def damaged() -> bytes:
    return packed({"a.md": "words of the page"}, zipfile.ZIP_STORED).replace(b"words", b"sword", 1)


def crowded() -> bytes:
    whole = bytearray(packed({"a.md": "words"}))
    at = whole.rindex(b"PK\x05\x06")
    whole[at + 12 : at + 16] = struct.pack("<L", 1 << 30)
    return bytes(whole)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "bad_archive"),
        (b"PK\x03\x04 and then nothing", "bad_archive"),
        (packed({"a.md": "words"})[:-30], "bad_archive"),
        (encrypted(), "bad_archive"),
        (damaged(), "bad_archive"),
        (crowded(), "bad_archive"),
        (packed({}), "empty_file"),
        (packed({"a.exe": "MZ", "b.png": PNG, "c.zip": packed({"d.md": "words"})}), "empty_file"),
        (packed({"a.md": ""}), "empty_file"),
        (packed({f"{n}.md": "x" for n in range(MOST_FILES + 1)}), "too_large"),
    ],
    ids=["nothing", "torn", "cut", "encrypted", "damaged", "crowded", "empty", "no document", "empty page", "many"],
)
def test_what_is_no_archive_of_documents_is_refused_and_leaves_nothing(shared: Any, content: bytes, code: str) -> None:
    with shared.client() as client:
        assert refused(client, content)["code"] == code
        assert ids(client) == HANDBOOK
    assert not list((shared.service.settings.home / "uploads").rglob("*.*"))


def test_a_bomb_is_given_up_at_the_limit(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none", server={"max_body_mb": 1}))
    one, many = packed({"a.md": bytes(3 << 20)}), packed({f"{n}.md": b"word " * 200_000 for n in range(20)})
    assert max(len(one), len(many)) < 100_000
    with running.client() as client:
        assert "1 MiB at most" in refused(client, one)["message"]
        assert "unpack to 8 MiB at most" in refused(client, many)["message"]
    assert not list((running.service.settings.home / "uploads").rglob("*.*"))


@pytest.mark.parametrize("renames", [0, 1])
def test_an_archive_is_there_though_its_replacing_was_killed(tmp_path: Path, renames: int) -> None:
    uploads, place = Uploads(tmp_path, 1 << 20), tmp_path / "uploads/docs/uploads"
    uploads.unpack("docs", "pages", io.BytesIO(packed({"a.md": "# Old"})), suffixes=KNOWN)
    child = os.fork()
    if not child:
        rename, left = Path.replace, [renames]

        def killed(self: Path, target: Path) -> Path:
            if not left[0]:
                os._exit(9)
            left[0] -= 1
            return rename(self, target)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            uploads.unpack("docs", "pages", io.BytesIO(packed({"a.md": "# New"})), suffixes=KNOWN)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(place.glob(".*.part"))
    uploads.recover()
    assert (place / "pages/a.md").read_text() == "# Old"
    assert list(place.glob(".*.part")), "another server may be writing it"
    (place / ".x.part").write_text("half")
    for draft in place.glob(".*.part"):
        os.utime(draft, (1e9, 1e9))
    uploads.recover()
    assert [path.name for path in place.iterdir()] == ["pages"]
    uploads.unpack("docs", "pages", io.BytesIO(packed({"a.md": "# New"})), suffixes=KNOWN)
    assert [path.read_text() for path in place.rglob("*.md")] == ["# New"]


def test_an_archive_counts_as_what_it_unpacks_to_and_replaces_what_it_counted(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, 1 << 20)
    content = packed({"a.md": b"x" * 600_000, "b/c.md": b"y" * 300_000})
    stored = uploads.unpack("docs", "pages", io.BytesIO(content), Room(0, 1 << 20), suffixes=KNOWN)
    assert stored.sizes == {"pages:a.md": 600_000, "pages:b:c.md": 300_000}
    with pytest.raises(Exception, match=r"limits\.stored_mb"):
        uploads.unpack("docs", "more", io.BytesIO(content), Room(400_000, 1 << 20), suffixes=KNOWN)
    assert sorted(path.name for path in (tmp_path / "uploads/docs/uploads").iterdir()) == ["pages"]


def test_each_page_of_an_archive_is_somebodys_and_its_place_is_free_again(running: Any) -> None:
    from server.access import LOCAL
    from server.store import collection_rows

    database = running.service.core.database

    def used(but: str = "other.md") -> int:
        return int(database.read_blocking(collection_rows.uploaded_bytes, LOCAL.id, ("docs", but)))

    with running.client() as client:
        upload(running, client, "pages.zip", packed({"a.md": "# A\n\nWords.", "b.md": "# B\n\nMore words."}))
        assert (used(), used("pages")) == (27, 0)
        upload(running, client, "pages.md", b"# Pages\n\nOthers.")
        upload(running, client, "pages.zip", packed({"a.md": "# A\n\nWords."}))
        assert (used(), used("pages"), used("pages.md")) == (27, 16, 11)
