"""Broken disks, as a person meets them: each file of a version, each damage, in a server, after a restart, in commands.

Whatever happens, what is found is right, something says what is wrong and what to do, and doing that mends it. By
default each file meets every damage in the server and in `doctor`, and some damages in `index` and `delete`;
`ANAPHORA_TEST_DAMAGE=all` takes every damage there, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from cli import app
from cli.shared.error_handler import ExitCode
from index.collection import list_collections
from index.encoders import Encoder
from index.indexer import index_paths
from index.stores import StoreSpec
from index.version import CollectionFolder
from rewriter.load import packaged_folder
from server.chat import loaded_models
from server.store import Database, collection_rows
from tests.cli.test_serve import command
from tests.damages import DAMAGES, Damage, damage_file, empty, flip, truncate
from tests.serving import DOCUMENTS, Serve, make_settings

ALL = os.environ.get("ANAPHORA_TEST_DAMAGE") == "all"
LEXICAL = ("data.csc.index.npy", "indices.csc.index.npy", "indptr.csc.index.npy", "params.index.json")
COMMON = ("records.sqlite", "manifest.json", *(f"lexical/{name}" for name in LEXICAL))
CASES = [*(("exact", file) for file in ("current", "vectors.npy", *COMMON)), ("quantised", "vectors.signs.npy")]
VISA = "# Visa\n\nA visa is issued by the consulate of the country of travel.\n"


@pytest.fixture(scope="session")
def prepared(
    encoder: Encoder, model_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, Path]]:
    """A home and the folder its collection `docs` was made from: two versions, the newer one knows of visas."""
    made: dict[str, tuple[Path, Path]] = {}

    def make(store: str) -> tuple[Path, Path]:
        if store not in made:
            home, folder = tmp_path_factory.mktemp("damage"), tmp_path_factory.mktemp("handbook")
            (home / "models").symlink_to(model_home / "models")
            for name, text in DOCUMENTS.items():
                (folder / name).write_text(text, "utf-8")
            for _ in range(2):
                index_paths(home / "collections", "docs", [folder], encoder, store=StoreSpec(store))
                (folder / "visa.md").write_text(VISA, "utf-8")
            made[store] = home, folder
        return made[store]

    return make


def anaphora(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def first(client: httpx.Client, collection: str, question: str) -> str:
    answer = client.post("/v1/search", json={"query": question, "collection": collection, "k": 1})
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["passages"][0]["document_id"]
    return found


def listed(client: httpx.Client) -> dict[str, Any]:
    return {one["name"]: one for one in client.get("/v1/collections").json()["data"]}


def searched_rightly(client: httpx.Client, name: str) -> bool:
    """Nothing wrong is found; whether the newest version answers."""
    assert first(client, name, "How long does parental leave last?") == "leave.md"
    assert first(client, name, "Which taxi rides are refunded?") == "travel.md"
    return first(client, name, "Which consulate issues a visa?") == "visa.md"


@pytest.fixture
def home(
    prepared: Callable[[str], tuple[Path, Path]], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of the prepared home with a collection for each damage."""
    made, _ = prepared(store)
    home = tmp_path / "home"
    (home / "collections").mkdir(parents=True)
    (home / "models").symlink_to(made / "models")
    for damage in DAMAGES:
        shutil.copytree(made / "collections" / "docs", home / "collections" / damage.__name__)
    monkeypatch.setenv("ANAPHORA_HOME", str(home))
    monkeypatch.setenv("ANAPHORA_INDEX__STORE", store)
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "none")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    monkeypatch.setattr(loaded_models, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(loaded_models, "TRY_AGAIN_SECONDS", 0.0)
    return home


@pytest.mark.parametrize(
    ("store", "file"),
    [CASES[0], *(pytest.param(*case, marks=pytest.mark.extended) for case in CASES[1:])],
    ids=["-".join(case) for case in CASES],
)
def test_nothing_wrong_is_found_and_there_is_a_way_back(
    home: Path,
    store: str,
    file: str,
    serve: Serve,
    model_home: Path,
    prepared: Callable[[str], tuple[Path, Path]],
    shared_models: None,
) -> None:
    settings = make_settings(home, model_home, "none", index={"store": store})
    rotated = CASES.index((store, file))
    names = [damage.__name__ for damage in DAMAGES]
    root = home / "collections"

    running = serve(settings)
    with running.client() as client:
        for damage in DAMAGES:
            assert searched_rightly(client, damage.__name__)
        for damage in DAMAGES:
            damage_file(CollectionFolder(root, damage.__name__), file, damage)
        for name in names:
            assert searched_rightly(client, name) == (file == "current"), name
        state = listed(client)
        for name in names:
            assert "is indexed again" in state[name]["problem"]
            assert state[name]["answers"]
    running.stop()

    told = anaphora("doctor").stdout
    for name in names:
        assert f"! collection {name}: " in told
    assert told.count("indexed again") == len(names)
    assert told.count("→ Index it again") == len(names)

    running = serve(settings)
    with running.client() as client:
        for name in names:
            assert searched_rightly(client, name) == (file == "current"), name
        for name in names if ALL else [names[rotated % 4]]:
            indexed = anaphora("index", prepared(store)[1], "--collection", name)
            assert indexed.exit_code == 0, indexed.output
            assert searched_rightly(client, name)
            assert listed(client)[name]["problem"] == ""
        for name in names if ALL else [names[(rotated + 1) % 4]]:
            deleted = anaphora("collections", "delete", name, "--yes")
            assert deleted.exit_code == 0, deleted.output
            assert name not in [info.name for info in list_collections(root)]
            assert not (root / name).exists()


@pytest.mark.parametrize("store", ["exact", "quantised"])
def test_the_files_tried_here_are_those_of_a_version(prepared: Callable[[str], tuple[Path, Path]], store: str) -> None:
    folder = CollectionFolder(prepared(store)[0] / "collections", "docs")
    version = folder.versions / folder.named()
    there = {path for path in version.rglob("*") if path.is_file() and path.stat().st_size}
    tried = {path for _, file in CASES for path in version.glob(file)}
    left = {path.relative_to(version).as_posix() for path in there - tried}
    assert left <= {"lexical/vocab.index.json"}


@pytest.mark.extended
def test_a_server_whose_mapped_files_are_cut_short_lives_on(
    prepared: Callable[[str], tuple[Path, Path]], model_home: Path, tmp_path: Path
) -> None:
    """A process of its own, since what it must not do is end."""
    home = Path(shutil.copytree(prepared("exact")[0], tmp_path / "home", symlinks=True))
    encoder = str(model_home / "models" / "bge-small-en-v1.5")
    line, values = command(home, "serve", "--port", "0", "--model", "none", ANAPHORA_INDEX__ENCODER=encoder)
    folder = CollectionFolder(home / "collections", "docs")
    newest = folder.versions / folder.named()
    with subprocess.Popen(line, env=values, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split(" at ")[1].split()[0]
            with httpx.Client(base_url=url, timeout=90, verify=False) as client:
                assert searched_rightly(client, "docs")
                for file in ("vectors.npy", "lexical/data.csc.index.npy", "lexical/indices.csc.index.npy"):
                    empty(newest / file)
                assert not searched_rightly(client, "docs")
                answer = client.get("/ready")
                assert answer.status_code == 503
                assert "indexed again" in " ".join(answer.json()["problems"])
                previous = next(path for path in folder.versions.iterdir() if path != newest)
                flip(previous / "vectors.npy")
                refused = client.post("/v1/search", json={"query": "parental leave", "collection": "docs"})
                assert refused.status_code == 503
                assert "index again" in refused.text
                assert client.get("/health").status_code == 200
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("damage", [truncate, flip])
def test_doctor_reads_all_of_the_database_and_backup_takes_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    path = tmp_path / "anaphora.db"
    database = Database(path)
    for number in range(200):
        database.write_blocking(lambda c, n=number: collection_rows.remember_sources(c, f"docs{n}", [Path("/a" * 60)]))  # type: ignore[misc]
    database.close()
    assert "✓ database" in anaphora("doctor").stdout
    damage_pages(path, damage)
    told = anaphora("doctor").stdout
    assert "✗ database" in told
    assert "restore a backup" in told
    copied = anaphora("backup", tmp_path / "backup.tar")
    assert copied.exit_code != 0
    assert not (tmp_path / "backup.tar").exists()


def test_a_database_of_a_newer_version_is_told_and_never_backed_up_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    database = Database(tmp_path / "anaphora.db")
    database.write_blocking(
        lambda connection: connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'z'")
    )
    database.close()
    doctor, backup = anaphora("doctor"), anaphora("backup", tmp_path / "backup.tar")
    assert re.search("✗ database: .* newer Anaphora", doctor.stdout)
    for refused in (backup, anaphora("trace", "list"), anaphora("keys", "list")):
        assert refused.exit_code == ExitCode.STORAGE
        assert "newer Anaphora" in refused.stderr
    assert not (tmp_path / "backup.tar").exists()


def test_a_full_disk_is_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    path = tmp_path / "anaphora.db"
    path.write_bytes(b"what SQLite cannot open " * 400)
    used = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: used._replace(free=0))
    for told in (anaphora("doctor").stdout, anaphora("keys", "list").stderr):
        assert "the disk is full" in told
        assert "move" not in told
        assert "restore" not in told


def damage_pages(path: Path, damage: Damage) -> None:
    """Damage a database; of a flip, in what holds its pages together, since no digest covers its rows."""
    if damage is flip:
        data = bytearray(path.read_bytes())
        for page in range(4096, len(data), 4096):
            data[page] ^= 0x40
        path.write_bytes(data)
    else:
        damage(path)


def test_an_empty_database_is_not_taken_for_a_new_one_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "anaphora.db"
    Database(path).close()
    assert "restore a backup" not in caplog.text
    empty(path)
    Database(path).close()
    assert "restore a backup" in caplog.text


def test_doctor_names_damaged_models_and_rewriters(
    model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path))
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "none")
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    shutil.copytree(model_home / "models" / "bge-small-en-v1.5", tmp_path / "models" / "bge-small-en-v1.5")
    packaged = packaged_folder()
    assert packaged is not None
    shutil.copytree(packaged, tmp_path / "rewriters" / "mine")
    monkeypatch.setenv("ANAPHORA_REWRITER__MODEL", "mine")
    told = anaphora("doctor").stdout
    assert "✓ embedding model" in told
    assert "✓ rewriter: mine" in told
    flip(next((tmp_path / "models").rglob("*.onnx")))
    flip(tmp_path / "rewriters" / "mine" / "model.onnx")
    told = anaphora("doctor").stdout
    assert "bge-small-en-v1.5 is damaged" in told
    assert "anaphora models fetch bge-small-en-v1.5" in told
    assert "✗ rewriter" in told
