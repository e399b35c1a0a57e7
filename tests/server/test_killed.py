"""Servers killed at random moments, and stopped ones: nothing is lost that they acknowledged.

A few rounds; `benchmarks/bad_days.py` does a hundred.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from index.errors import ModelUnavailable
from server.chat.loaded_models import Models
from server.store.jobs import CUT_SHORT
from tests.killing import Home
from tests.rows import MINE

PAGE = "# Fax\n\nThe fax number of the embassy is 555-0142.\n"


@pytest.mark.extended
def test_killed_servers_lose_nothing_they_acknowledged(tmp_path: Path, llm: Any) -> None:
    llm.pace = 0.01
    home = Home(tmp_path, seed=5)
    for n in range(8):
        # On a busy machine a server may be killed before it has done anything: it gets more time after that.
        home.serving(llm, 2.0 * max(n, 1))
        if n > 0 and {"turns", "uploads"} <= home.acknowledged.keys():
            break
    home.making_keys()
    home.restoring()
    home.finish(llm)
    assert not home.lost
    assert {"turns", "uploads", "keys"} <= home.acknowledged.keys()


def upload(client: Any, name: str, text: str = PAGE) -> dict[str, Any]:
    answer = client.post("/v1/collections/box/documents", files={"file": (name, text.encode())})
    assert answer.status_code == 202
    return dict(answer.json())


def documents(client: Any) -> list[str]:
    return [document["id"] for document in client.get("/v1/collections/box/documents").json()["data"]]


def test_what_a_server_had_accepted_when_it_was_stopped_is_done_by_the_next(serve: Any, settings_for: Any) -> None:
    settings = settings_for("none")
    first = serve(settings)
    with first.client() as client:
        assert first.finished(upload(client, "old.md")["id"]).state == "done"
        # Whoever writes a collection holds this, and the jobs wait.
        first.service.core.runner.submit("reindex", "box", lambda progress: wait_for_the_end(progress), MINE)
        deleted = client.delete("/v1/collections/box/documents/uploads/old.md").json()
        accepted = upload(client, "new.md", PAGE.replace("fax", "telephone"))
    first.stop()
    second = serve(settings)
    with second.client() as client:
        for job in (deleted, accepted):
            found = client.get(f"/v1/jobs/{job['id']}").json()
            assert (found["state"], found["message"]) == ("interrupted", CUT_SHORT[job["kind"]])
            assert "goes on by itself" in found["message"]
        before = len(client.get("/v1/jobs?collection=box").json()["data"])

        async def resume_twice() -> None:
            await asyncio.gather(
                second.service.collections.resume_uploads(), second.service.collections.resume_uploads()
            )

        second.call(resume_twice())
        resumed, *others = client.get("/v1/jobs?collection=box").json()["data"]
        assert len(others) == before
        assert resumed["id"] not in (deleted["id"], accepted["id"])
        assert second.finished(resumed["id"]).state == "done"
        assert documents(client) == ["uploads/new.md"]
        second.call(second.service.collections.resume_uploads())
        assert client.get("/v1/jobs?collection=box").json()["data"][0]["id"] == resumed["id"], "there is no more to do"


def wait_for_the_end(progress: Any) -> list[Any]:
    from index.errors import IndexingCancelled

    while not progress.cancelled():
        time.sleep(0.01)
    raise IndexingCancelled("stopped")


def test_the_last_upload_of_a_collection_stays_deleted(serve: Any, settings_for: Any) -> None:
    settings = settings_for("none")
    first = serve(settings)
    with first.client() as client:
        first.finished(upload(client, "old.md")["id"])
        first.service.core.runner.submit("reindex", "box", lambda progress: wait_for_the_end(progress), MINE)
        assert client.delete("/v1/collections/box/documents/uploads/old.md").status_code == 202
        assert not (settings.home / "uploads" / "box" / "uploads" / "old.md").exists()
    first.stop()
    second = serve(settings)
    with second.client() as client:
        second.call(second.service.collections.resume_uploads())
        second.finished(client.get("/v1/jobs?collection=box").json()["data"][0]["id"])
        assert documents(client) == []


def test_a_collection_whose_deletion_was_cut_short_is_deleted_by_asking_again(serve: Any, settings_for: Any) -> None:
    settings = settings_for("none")
    running = serve(settings)
    with running.client() as client:
        running.finished(upload(client, "old.md")["id"])
        running.call(as_a_coroutine(lambda: running.service.core.opened.delete("box")))
        assert client.delete("/v1/collections/box").status_code == 204
        assert not (settings.home / "uploads" / "box").exists()
        assert client.delete("/v1/collections/box").status_code == 404


async def as_a_coroutine(call: Any) -> Any:
    return call()


def test_words_serve_at_once_and_the_next_server_goes_on_with_embedding(
    serve: Any, settings_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.writer.WORDS_FIRST", 2)
    monkeypatch.setattr("index.writer.EMBED_BATCH", 1)

    def unavailable(_: Models) -> None:
        raise ModelUnavailable("the model cannot be loaded a second time")

    settings = settings_for("none")
    page = "# Lamps\n\n" + "".join(f"## Lamp {n}\n\nLamp {n} has a cord of {n} metres.\n\n" for n in range(9))
    with monkeypatch.context() as patched:
        patched.setattr(Models, "background_encoder", unavailable)
        first = serve(settings)
        with first.client() as client:
            assert first.finished(upload(client, "lamps.md", page)["id"]).state == "done"
            embedding = client.get("/v1/jobs?collection=box").json()["data"][0]
            assert embedding["kind"] == "embed"
            assert first.finished(embedding["id"]).message == "the model cannot be loaded a second time"
        first.stop()
    second = serve(settings)
    with second.client() as client:
        assert box(client)["without_vector"] == box(client)["passages"] - 1
        found = client.post("/v1/search", json={"query": "cord of lamp 7", "collection": "box"}).json()["passages"]
        assert "cord of 7 metres" in found[0]["text"]
        second.call(second.service.collections.resume_embedding())
        embedding = client.get("/v1/jobs?collection=box").json()["data"][0]
        assert second.finished(embedding["id"]).state == "done"
        assert box(client)["without_vector"] == 0
        second.call(second.service.collections.resume_embedding())
        assert client.get("/v1/jobs?collection=box").json()["data"][0]["id"] == embedding["id"], "nothing is left"


def box(client: Any) -> dict[str, Any]:
    return next(row for row in client.get("/v1/collections").json()["data"] if row["name"] == "box")


def test_a_file_uploaded_again_while_its_deletion_waits_stays(serve: Any, settings_for: Any) -> None:
    running = serve(settings_for("none"))
    with running.client() as client:
        running.finished(upload(client, "page.md")["id"])
        submit = running.service.core.runner.submit
        waiting = submit("reindex", "box", lambda progress: wait_for_the_end(progress), MINE)
        client.delete("/v1/collections/box/documents/uploads/page.md")
        again = upload(client, "page.md", PAGE.replace("fax", "telephone"))
        client.post(f"/v1/jobs/{waiting.id}/cancel")
        assert running.finished(again["id"]).state == "done"
        text = client.get("/v1/collections/box/documents/uploads/page.md").json()["text"]
        assert "telephone" in text
