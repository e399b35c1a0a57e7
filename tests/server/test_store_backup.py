"""Backup and restore: consistent beside writers, whole or not at all, and deaf to hostile archives."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from index.errors import CollectionNotFound
from index.stores import EXACT
from index.version import FORMAT, CollectionFolder, Manifest, write_manifest
from server.chat import TurnRequest, open_service
from server.store import Database, Runner, collection_rows, conversations
from server.store.home import BackupManifest, back_up, hold_home, restore, unfinished
from server.store.records import BackupError, HomeBusy, StoreError
from tests.rows import MINE


def files(home: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything that lasts; of the database what it holds."""
    found = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if path.is_file() and not name.endswith((".lock", "-wal", "-shm", "/lock")):
            content = dump(path) if name == "anaphora.db" else path.read_bytes()
            found[name] = (path.stat().st_mode & 0o777, content)
    return found


def dump(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump()).encode()
    finally:
        connection.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A small home of every kind of part."""
    home = tmp_path / "home"
    (home / "uploads" / "docs" / "uploads").mkdir(parents=True, mode=0o700)
    (home / "uploads" / "docs" / "uploads" / "a.md").write_text("# A")
    (home / "anaphora.toml").write_text("[llm]\napi_key = 'x'\n")
    (home / "anaphora.toml").chmod(0o600)
    for trained in ("rewriters", "adapt"):
        (home / trained / "mine").mkdir(parents=True)
        (home / trained / "mine" / "weights").write_bytes(b"w")
    (home / "models" / "m").mkdir(parents=True)
    (home / "models" / "m" / "weights").write_bytes(b"w")
    version(home / "collections" / "docs", "000001-00000000")
    database = Database(home / "anaphora.db")
    database.write_blocking(lambda c: collection_rows.remember_sources(c, "docs", [Path("/a")]))
    database.close()
    return home


def version(folder: Path, name: str, count: int = 3) -> None:
    """A version of a collection, serving at once; each of its files says which it is."""
    place = folder / "versions" / name
    place.mkdir(parents=True)
    for n in range(count):
        (place / f"{n}.bin").write_text(name)
    made: dict[str, Any] = {"format": FORMAT, "version": name, "previous": "", "created": 0.0, "encoder": "words"}
    sizes = {"dimension": 4, "documents": 1, "passages": 1, "terms": False}
    write_manifest(place, Manifest(**made, **sizes, store=EXACT, language="en", languages=("en",)))
    (folder / "current.draft").write_text(name)
    (folder / "current.draft").replace(folder / "current")


def test_what_was_backed_up_beside_a_server_comes_back_whatever_was_left_of_the_database(
    settings_for: Any, tmp_path: Path
) -> None:
    settings = settings_for("none")
    home, file = settings.home, tmp_path / "backup.tar.gz"

    async def serve_and_back_up() -> str:
        async with open_service(settings, warm=False) as service:
            with hold_home(home):
                kept = await service.conversations.create("docs", "kept")
                assert (home / "anaphora.db-wal").stat().st_size > 0
                await asyncio.to_thread(back_up, home, file)
                await service.conversations.create("docs", "later")
                # As a killed server leaves them.
                for suffix in ("-wal", "-shm"):
                    shutil.copy(home / f"anaphora.db{suffix}", tmp_path)
                return kept.id

    kept = asyncio.run(serve_and_back_up())
    for suffix in ("-wal", "-shm"):
        shutil.copy(tmp_path / f"anaphora.db{suffix}", home)
    (home / "uploads" / "new").mkdir(parents=True)
    shutil.rmtree(home / "collections")
    assert file.stat().st_mode & 0o777 == 0o600
    restore(home, file)
    assert (home / "anaphora.db").stat().st_mode & 0o777 == 0o600
    assert not (home / "uploads").exists()

    async def look() -> None:
        async with open_service(settings, warm=False) as service:
            assert [found.id for found in await service.conversations.listing(None)] == [kept]
            assert len(await service.collections.documents("docs")) == 3
            assert (await service.turns.search(TurnRequest(question="parental leave"), k=1)).passages

    asyncio.run(look())


@pytest.mark.parametrize("models", [False, True])
def test_everything_comes_back_with_its_mode(home: Path, tmp_path: Path, models: bool) -> None:
    before, file = files(home), tmp_path / "backup.tar"
    manifest = back_up(home, file, models=models)
    assert ("models" in manifest.parts) is models
    with tarfile.open(file) as archive:
        assert any(name.startswith("models/") for name in archive.getnames()) is models
    for changed in ("anaphora.toml", "uploads/docs/uploads/a.md", "rewriters/mine/weights", "adapt/mine/weights"):
        (home / changed).write_text("changed")
        (home / changed).chmod(0o666)
    (home / "synth").mkdir()
    restore(home, file)
    assert files(home) == before
    assert not (home / "synth").exists()
    assert (home / "uploads" / "docs" / "uploads").stat().st_mode & 0o777 == 0o700
    other = tmp_path / "other"
    restore(other, file)
    assert {name for name in files(other) if name.startswith("models/")} == ({"models/m/weights"} if models else set())
    assert files(other)["anaphora.db"] == before["anaphora.db"]


def test_a_collection_is_copied_as_one_version_however_fast_new_ones_come(home: Path, tmp_path: Path) -> None:
    folder, stop = home / "collections" / "docs", threading.Event()

    def write() -> None:
        kept = ["000001-00000000"]
        for number in range(2, 10_000):
            name = f"{number:06d}-{secrets.token_hex(4)}"
            version(folder, name, 40)
            kept.append(name)
            if len(kept) > 2:
                shutil.rmtree(folder / "versions" / kept.pop(0))
            if stop.wait(0.02):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(10):
            file = tmp_path / f"{n}.tar"
            with suppress(BackupError):
                back_up(home, file)
            if not file.exists():
                continue
            with tarfile.open(file) as archive:
                texts = {
                    archive.extractfile(member).read().decode()  # type: ignore[union-attr]
                    for member in archive
                    if member.isfile()
                    and member.name.startswith("collections/docs/")
                    and not member.name.endswith(("draft", "manifest.json"))
                }
            assert len(texts) == 1
    finally:
        stop.set()
        writer.join()


def hostile(file: Path, *members: tuple[tarfile.TarInfo, bytes], manifest: str | None = None) -> Path:
    told = BackupManifest(version="1", created=0.0, parts=("anaphora.toml", "uploads")).model_dump_json()
    with tarfile.open(file, "w") as archive:
        for member, content in (named("backup.json", told if manifest is None else manifest), *members):
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def named(
    name: str, content: str = "x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member, content.encode() if kind == tarfile.REGTYPE else b""


MEMBERS = {
    "up": [named("../evil")],
    "up inside": [named("uploads/../../evil")],
    "absolute": [named("/tmp/evil")],
    "of no part": [named("run/x.lock")],
    "of a part that is not covered": [named("anaphora.db")],
    "symbolic link": [named("uploads/link", kind=tarfile.SYMTYPE, link="/etc")],
    "through a link": [named("uploads/l", kind=tarfile.SYMTYPE, link="/tmp"), named("uploads/l/evil")],
    "hard link": [named("uploads/link", kind=tarfile.LNKTYPE, link="anaphora.toml")],
    "pipe": [named("uploads/pipe", kind=tarfile.FIFOTYPE)],
    "device": [named("uploads/device", kind=tarfile.CHRTYPE)],
    "twice": [named("anaphora.toml", "a"), named("anaphora.toml", "b")],
    "file as folder": [named("uploads"), named("uploads/a")],
    "nameless": [named(".")],
}


@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
def test_a_hostile_archive_changes_nothing(home: Path, tmp_path: Path, members: Any) -> None:
    before = files(tmp_path)
    file = hostile(tmp_path / "hostile.tar", *members)
    with pytest.raises(BackupError):
        restore(home, file)
    file.unlink()
    assert files(tmp_path) == before
    assert not Path("/tmp/evil").exists()


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", '{"format": 2, "version": "9", "created": 0, "parts": []}']
    + [
        BackupManifest(version="1", created=0.0, parts=(part,)).model_dump_json() for part in ("..", "run", "/etc", ".")
    ],
)
def test_a_manifest_names_only_parts_of_a_home(home: Path, tmp_path: Path, manifest: str) -> None:
    before = files(home)
    with pytest.raises(BackupError):
        restore(home, hostile(tmp_path / "hostile.tar", manifest=manifest))
    assert files(home) == before


def test_what_is_no_backup_changes_nothing(home: Path, tmp_path: Path) -> None:
    before, whole = files(home), tmp_path / "whole.tar.gz"
    back_up(home, whole)
    broken = {
        "empty": b"",
        "junk": b"junk" * 1000,
        "cut": whole.read_bytes()[:-200],
        "damaged": whole.read_bytes()[:300] + bytes(40) + whole.read_bytes()[340:],
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((StoreError, OSError)):
            restore(home, tmp_path / name)
        assert files(home) == before, name
        assert not (home / ".restoring").exists()
    with pytest.raises(BackupError, match="exists"):
        back_up(home, whole)


def test_a_backup_of_a_newer_version_or_with_a_damaged_database_changes_nothing(home: Path, tmp_path: Path) -> None:
    before = files(home)
    for name, change in {"newer": "UPDATE alembic_version SET version_num = '9999'", "damaged": None}.items():
        other, file = tmp_path / name, tmp_path / f"{name}.tar"
        shutil.copytree(home, other)
        connection = sqlite3.connect(other / "anaphora.db")
        connection.execute(change or "PRAGMA user_version")
        connection.commit()
        connection.close()
        if change is not None:
            with pytest.raises(StoreError, match="newer Anaphora"):
                back_up(other, file)
            continue
        back_up(other, file)
        file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE TBALE"))
        with pytest.raises(StoreError):
            restore(home, file)
        assert files(home) == before


def failing_rename(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    real: Callable[[Path, Any], Path] = Path.rename
    left = [after]

    def rename(self: Path, target: Any) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(5, "Input/output error", str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)


def test_a_damaged_version_is_named_and_the_one_before_backed_up(home: Path, tmp_path: Path) -> None:
    collection = home / "collections" / "docs"
    version(collection, "000002-00000000")
    (collection / "versions" / "000002-00000000" / "1.bin").write_text("000002-00000001")
    said = list[str]()
    back_up(home, tmp_path / "backup.tar", warn=said.append)
    assert "1.bin" in said[0]
    assert "Index it again" in said[0]
    restore(tmp_path / "restored", tmp_path / "backup.tar")
    assert CollectionFolder(tmp_path / "restored" / "collections", "docs").named() == "000001-00000000"
    (collection / "versions" / "000001-00000000" / "2.bin").unlink()
    with pytest.raises(BackupError, match=r"no sound version \(1\.bin.*index it again"):
        back_up(home, tmp_path / "other.tar")


def test_a_damaged_collection_in_a_backup_changes_nothing_and_can_be_left_out(home: Path, tmp_path: Path) -> None:
    file, before = tmp_path / "backup.tar", files(home)
    back_up(home, file)
    # The same length, so that the archive is as sound as it was.
    data = bytearray(file.read_bytes())
    data[data.rindex(b"000001-00000000" + bytes(400))] = ord("1")
    file.write_bytes(data)
    with pytest.raises(BackupError, match=r"\.bin.*nothing was changed.*--without"):
        restore(home, file)
    assert files(home) == before
    restore(home, file, without=["docs"])
    assert not (home / "collections" / "docs").exists()
    assert (home / "uploads" / "docs" / "uploads" / "a.md").read_text() == "# A"


@pytest.mark.parametrize("name", ["dosc", "..", "../../uploads", ""])
def test_leaving_out_a_collection_that_is_not_in_the_backup_is_refused(home: Path, tmp_path: Path, name: str) -> None:
    file, before = tmp_path / "backup.tar", files(home)
    back_up(home, file)
    with pytest.raises(CollectionNotFound, match=r"which holds docs; nothing was changed"):
        restore(home, file, without=[name])
    assert files(home) == before


@pytest.mark.parametrize("after", range(1, 9))
def test_a_switch_that_fails_is_put_back(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    file = tmp_path / "backup.tar"
    back_up(home, file)
    (home / "anaphora.toml").write_text("newer")
    (home / "uploads" / "more").mkdir()
    before = files(home)
    failing_rename(monkeypatch, after)
    with pytest.raises(OSError, match="Input/output"):
        restore(home, file)
    assert files(home) == before
    assert not unfinished(home)


@pytest.mark.parametrize("after", [2, 5, 8])
def test_a_killed_restoring_is_known_and_begun_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    file, wanted = tmp_path / "backup.tar", files(home)
    back_up(home, file)
    (home / "anaphora.toml").write_text("newer")
    (home / "ask_history").write_text("+newer")
    with monkeypatch.context() as killed:
        failing_rename(killed, after)
        killed.setattr("server.store.home.undo", lambda home: None)
        with pytest.raises(OSError, match="Input/output"):
            restore(home, file)
    assert unfinished(home)
    restore(home, file)
    assert files(home) == wanted
    assert not unfinished(home)


def test_a_home_in_use_is_not_restored(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    back_up(home, file)
    with hold_home(home), pytest.raises(HomeBusy, match=f"process {os.getpid()}"):
        restore(home, file)
    asking = Runner(home / "run")
    with pytest.raises(BackupError, match="anaphora ask"):
        restore(home, file)
    asking.close()
    restore(home, file)


def test_conversations_written_meanwhile_do_not_tear_the_copy(home: Path, tmp_path: Path) -> None:
    database, stop = Database(home / "anaphora.db"), threading.Event()

    def write() -> None:
        while not stop.is_set():
            database.write_blocking(lambda c: conversations.create(c, "docs", MINE, "x" * 300))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(5):
            back_up(home, tmp_path / f"{n}.tar")
    finally:
        stop.set()
        writer.join()
        database.close()
    restore(home, tmp_path / "4.tar")
    again = Database(home / "anaphora.db")
    assert again.read_blocking(lambda c: c.exec_driver_sql("PRAGMA integrity_check").fetchone()[0]) == "ok"
    again.close()
