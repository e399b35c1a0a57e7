"""Readiness says so where every search fails, and where nothing can be stored."""

from __future__ import annotations

from typing import Any

import pytest

from index.errors import CollectionCorrupt
from server.chat import probes


@pytest.fixture
def ready(running: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(probes, "REMEMBERED_SECONDS", 0.0)
    running.call(running.service.warm())
    with running.client() as client:
        assert client.get("/ready").status_code == 200
    return running


def test_a_server_whose_searches_fail_is_not_ready(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object, **__: object) -> None:
        raise CollectionCorrupt("records.sqlite: database disk image is malformed")

    monkeypatch.setattr(type(ready.service.opened.get("docs")), "search", search)
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
