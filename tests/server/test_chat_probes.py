"""Readiness says so where every search fails, and where nothing can be stored."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from index.errors import CollectionCorrupt
from index.version import Pace
from server.chat import admin as probes
from server.chat import loaded_models as collections


@pytest.fixture
def ready(running: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(probes, "REMEMBERED_SECONDS", 0.0)
    running.call(running.service.core.warm())
    with running.client() as client:
        assert client.get("/ready").status_code == 200
    return running


def test_a_server_whose_searches_fail_is_not_ready(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object, **__: object) -> None:
        raise CollectionCorrupt("records.sqlite: database disk image is malformed")

    monkeypatch.setattr(type(ready.service.core.opened.get("docs")), "search", search)
    with ready.client() as client:
        answer = client.get("/ready")
    assert answer.status_code == 503
    assert "Searching docs fails" in answer.json()["problems"][0]


def test_a_server_on_a_full_disk_is_not_ready(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "RESERVE", 1 << 62)
    with ready.client() as client:
        answer = client.get("/ready")
        assert answer.status_code == 503
        assert "free some space" in answer.json()["problems"][0]
        monkeypatch.setattr(probes, "RESERVE", 0)
        assert client.get("/ready").status_code == 200


def test_a_home_that_cannot_be_written_to_is_not_ready(ready: Any) -> None:
    home = ready.service.settings.home
    home.rename(home.with_name("away"))
    try:
        with ready.client() as client:
            problems = client.get("/ready").json()["problems"]
    finally:
        home.with_name("away").rename(home)
    assert any("Nothing can be stored" in problem for problem in problems)


def test_a_database_that_takes_no_writes_is_not_ready(ready: Any) -> None:
    def refuse(refused: bool) -> None:
        with ready.service.core.database.kind.raw() as connection:
            connection.execute(f"PRAGMA query_only = {refused}")

    refuse(True)
    with ready.client() as client:
        answer = client.get("/ready")
        assert answer.status_code == 503
        assert "Could not write to" in answer.json()["problems"][0]
        refuse(False)
        assert client.get("/ready").status_code == 200


def test_a_file_overwritten_in_place_is_noticed_by_the_next_look(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(collections, "TRY_AGAIN_SECONDS", 0.0)
    (vectors,) = (ready.service.core.opened.root / "docs" / "versions").glob("*/vectors.npy")
    sound = vectors.read_bytes()
    vectors.write_bytes(sound[:-4] + b"\x00\x00\x80\x3f")
    with ready.client() as client:
        answer = client.get("/ready")
        assert answer.status_code == 503
        assert "vectors.npy" in answer.json()["problems"][0]
        listed = client.get("/v1/collections").json()["data"][0]
        assert "vectors.npy" in listed["problem"]
        assert not listed["answers"]
        job = ready.finished(client.post("/v1/collections/docs/reindex").json()["id"])
        assert job.state == "done"
        assert client.get("/ready").json()["problems"] == []


def test_hourly_checks_are_paced_and_one_at_a_time(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, end = list[Pace](), threading.Event()

    def check(_: object, pace: Pace) -> bool:
        begun.append(pace)
        return end.wait(120)

    opened = ready.service.core.opened
    monkeypatch.setattr(type(opened.get("docs")), "check", check)
    monkeypatch.setattr(collections, "CHECK_SECONDS", -1.0)
    for _ in range(3):
        opened.get("docs")
    end.set()
    opened._comparing["docs"].join(120)
    assert [pace._rate for pace in begun] == [collections.CHECK_BYTES]
