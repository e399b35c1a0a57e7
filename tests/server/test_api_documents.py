"""Documents over HTTP: uploaded, indexed in the background, read, found, removed, indexed again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from server.chat.uploads import safe_name

SUFFIXES = frozenset({".md", ".pdf", ".txt"})


def upload(running: Any, client: Any, name: str, content: bytes, collection: str = "docs") -> Any:
    answer = client.post(f"/v1/collections/{collection}/documents", files={"file": (name, content)})
    assert answer.status_code == 202, answer.text
    return running.finished(answer.json()["id"])


def ids(client: Any, collection: str = "docs") -> list[str]:
    return [document["id"] for document in client.get(f"/v1/collections/{collection}/documents").json()["data"]]


def best(client: Any, query: str, collection: str = "docs") -> str:
    found = client.post("/v1/search", json={"query": query, "collection": collection}).json()
    document: str = found["passages"][0]["document_id"]
    return document


def test_an_upload_is_indexed_found_read_and_removed(running: Any) -> None:
    with running.client() as client:
        job = upload(running, client, "parking.md", b"# Parking\n\nBicycles are parked in the cellar.\n")
        assert job.state == "done"
        assert [(file.document_id, file.status) for file in job.files] == [("uploads/parking.md", "indexed")]
        assert best(client, "where do bicycles go") == "uploads/parking.md"
        document = client.get("/v1/collections/docs/documents/uploads/parking.md").json()
        assert "Bicycles are parked in the cellar." in document["text"]
        removed = client.delete("/v1/collections/docs/documents/uploads/parking.md")
        assert running.finished(removed.json()["id"]).state == "done"
        assert ids(client) == ["leave.md", "security.md", "travel.md"]
        assert not list((running.service.settings.home / "uploads").rglob("*.md"))


def test_a_newer_upload_of_the_same_name_replaces_the_older(running: Any) -> None:
    with running.client() as client:
        upload(running, client, "parking.md", b"# Parking\n\nBicycles are parked in the cellar.\n")
        upload(running, client, "parking.md", b"# Parking\n\nBicycles are parked on the roof.\n")
        text = client.get("/v1/collections/docs/documents/uploads/parking.md").json()["text"]
        assert "roof" in text
        assert "cellar" not in text


def test_an_upload_makes_a_new_collection(running: Any) -> None:
    with running.client() as client:
        upload(running, client, "parking.md", b"# Parking\n\nBicycles are parked in the cellar.\n", "garage")
        names = [collection["name"] for collection in client.get("/v1/collections").json()["data"]]
        assert names == ["docs", "garage"]
        assert best(client, "bicycles", "garage") == "uploads/parking.md"
        assert client.delete("/v1/collections/garage").status_code == 204
        assert client.post("/v1/search", json={"query": "x", "collection": "garage"}).status_code == 404


def test_a_broken_upload_fails_with_a_reason_and_changes_nothing(running: Any) -> None:
    with running.client() as client:
        job = upload(running, client, "broken.pdf", b"%PDF-1.7 and then nothing of the kind")
        assert job.state == "failed"
        assert job.files[0].status == "failed"
        assert job.files[0].message
        assert ids(client) == ["leave.md", "security.md", "travel.md"]


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [("evil.exe", b"MZ", 400), ("empty.md", b"", 400), (".md", b"x", 400), ("x" * 300 + ".nothing", b"x", 400)],
)
def test_what_cannot_be_indexed_is_refused_at_once(running: Any, name: str, content: bytes, status: int) -> None:
    with running.client() as client:
        answer = client.post("/v1/collections/docs/documents", files={"file": (name, content)})
        assert answer.status_code == status
        assert answer.json()["error"]["param"] == "file"
        assert {job["kind"] for job in client.get("/v1/jobs").json()["data"]} == {"index"}


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd.md", "passwd.md"),
        ("C:\\Users\\me\\notes.MD", "notes.md"),
        ("a\x00b\u202e.md", "a b.md"),
        ("con.txt", "_con.txt"),
        ("..md.md", "md.md"),
        ("日本語 資料.pdf", "日本語 資料.pdf"),
        ("x" * 500 + ".md", "x" * 177 + ".md"),
    ],
)
def test_file_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name, SUFFIXES) == safe


def test_an_upload_above_the_limit_is_a_413(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none", server={"max_body_mb": 1}))
    with running.client() as client:
        content = b"# Big\n\n" + b"word " * 300_000
        told = client.post("/v1/collections/docs/documents", files={"file": ("big.md", content)})
        assert told.status_code == 413
        assert told.json()["error"]["code"] == "too_large"

        def body() -> Any:
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="big.md"\r\n\r\n'
            for start in range(0, len(content), 65536):
                yield content[start : start + 65536]
            yield b"\r\n--x--\r\n"

        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        untold = client.post("/v1/collections/docs/documents", content=body(), headers=headers)
        assert untold.status_code == 413
        assert "1 MiB" in untold.json()["error"]["message"]
        assert ids(client) == ["leave.md", "security.md", "travel.md"]


def test_a_document_of_an_indexed_folder_is_not_removed(running: Any) -> None:
    with running.client() as client:
        answer = client.delete("/v1/collections/docs/documents/leave.md")
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "not_an_upload"
        assert client.delete("/v1/collections/docs/documents/nothing.md").status_code == 404
        assert client.get("/v1/collections/docs/documents/nothing.md").status_code == 404


def test_indexing_again_sees_what_changed_in_the_folder(serve: Any, settings_for: Any, tmp_path: Path) -> None:
    folder = tmp_path / "changing"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe canteen opens at noon.\n")
    (folder / "b.md").write_text("# B\n\nThe library closes at six.\n")
    running = serve(settings_for("none"))
    with running.client() as client:
        running.finished(running.call(running.service.collections.index_paths("house", [folder])).id)
        upload(running, client, "c.md", b"# C\n\nThe pool is heated.\n", "house")
        (folder / "a.md").write_text("# A\n\nThe canteen opens at eleven.\n")
        (folder / "b.md").unlink()
        job = running.finished(client.post("/v1/collections/house/reindex").json()["id"])
        assert {file.document_id: file.status for file in job.files} == {
            "a.md": "indexed",
            "b.md": "deleted",
            "uploads/c.md": "unchanged",
        }
        assert "eleven" in client.get("/v1/collections/house/documents/a.md").json()["text"]
        assert ids(client, "house") == ["a.md", "uploads/c.md"]
        assert client.post("/v1/collections/nothing/reindex").status_code == 404


def test_other_documents_take_the_place_of_those_served_before(serve: Any, settings_for: Any, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe canteen opens at noon.\n")
    running = serve(settings_for("none"))
    with running.client() as client:
        upload(running, client, "c.md", b"# C\n\nThe pool is heated.\n")
        job = running.finished(running.call(running.service.collections.index_paths("docs", [folder], replace=True)).id)
        assert job.state == "done"
        assert ids(client) == ["a.md", "uploads/c.md"]


def test_a_job_is_cancelled_and_leaves_the_collection_as_it_was(serve: Any, settings_for: Any, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(100):
        (folder / f"{n:03}.md").write_text(f"# Number {n}\n\n" + f"Sentence {n} about something else. " * 40)
    running = serve(settings_for("none"))
    with running.client() as client:
        job = running.call(running.service.collections.index_paths("docs", [folder]))
        cancelled = client.post(f"/v1/jobs/{job.id}/cancel")
        assert cancelled.status_code == 202
        assert running.finished(job.id).state == "cancelled"
        assert ids(client) == ["leave.md", "security.md", "travel.md"]
        assert client.get(f"/v1/jobs/{job.id}").json()["state"] == "cancelled"
        assert client.get("/v1/jobs/nothing").status_code == 404


def test_a_version_written_by_another_process_is_served(serve: Any, settings_for: Any, tmp_path: Path) -> None:
    from index.indexer import index_paths

    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "a.md").write_text("# Canteen\n\nThe canteen opens at noon.\n")
    settings = settings_for("none")
    running = serve(settings)
    with running.client() as client:
        assert best(client, "when does the canteen open") != "a.md"
        index_paths(settings.home / "collections", "docs", [folder], running.service.core.models.encoder())
        running.service.core.opened.changed("docs")
        assert best(client, "when does the canteen open") == "a.md"


def test_a_folder_whose_name_is_no_utf_8_is_told_and_the_others_are_indexed(running: Any, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xfccher"))
    for folder in (odd, tmp_path / "fine"):
        folder.mkdir()
        (folder / "one.md").write_text("# One\n\nThe library.\n")
    for paths, state in (([odd, tmp_path / "fine"], "done"), ([odd], "done")):
        job = running.finished(running.call(running.service.collections.index_paths("house", paths, replace=True)).id)
        assert job.state == state, job.message
        (failed,) = [file for file in job.files if file.status == "failed"]
        assert "is not UTF-8" in failed.message
