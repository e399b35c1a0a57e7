"""Sources in a running server: read when asked and when due, pushed to, removed; by HTTP and from a terminal."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anaphora_client import AnaphoraClient
from typer.testing import CliRunner

from cli import add_plugin_commands, app
from plugins.mcp.tools import AskTool
from plugins.sources.service import follow
from testing.plugin import PluginContract
from tests.eventually import eventually
from tests.serving import MakeSettings, Running, Serve
from tests.web_site import FakeSite


@pytest.fixture
def site() -> Iterator[FakeSite]:
    with FakeSite() as site:
        site.html("/docs/", "<h1>Help desk</h1><p>The help desk is open.</p>", "parking.html")
        site.html("/docs/parking.html", "<h1>Parking</h1><p>A parking permit costs forty euros a month.</p>")
        yield site


@pytest.fixture
def running(serve: Serve, settings_for: MakeSettings) -> Running:
    return serve(settings_for("none", plugins={"sources": {"private_hosts": ["127.0.0.1"]}}))


def ask(running: Running, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    with running.client() as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def finished(running: Running, job: Any) -> Any:
    done = running.finished(job["id"] if isinstance(job, dict) else job)
    assert done.state in ("done", "failed")
    return done


def documents(running: Running, collection: str = "docs") -> dict[str, Any]:
    rows = ask(running, "GET", f"/v1/collections/{collection}/documents")["data"]
    return {row["id"]: row for row in rows}


def test_a_site_is_read_cited_at_its_own_address_and_taken_away(running: Running, site: FakeSite) -> None:
    described = {"name": "site", "collection": "docs", "kind": "web", "location": f"{site.url}/docs/", "delay": 0}
    added = ask(running, "POST", "/v1/sources", {**described, "every": "6h"}, status=201)
    finished(running, added["busy"])
    assert documents(running)["site/docs/parking.html"]["source"] == f"{site.url}/docs/parking.html"
    source = ask(running, "GET", "/v1/sources/site")
    assert (source["documents"], source["failed"], source["last"]["counts"]) == (2, 0, {"new": 2})
    assert source["due"] > source["last"]["began"] + 6 * 3600
    assert [item["url"] for item in source["items"].values()] == [f"{site.url}/docs/", f"{site.url}/docs/parking.html"]
    answered = ask(
        running, "POST", "/v1/chat/completions",
        {"model": "docs", "messages": [{"role": "user", "content": "How much is a parking permit?"}]},
    )  # fmt: skip
    cited = answered["anaphora"]["citations"][0]
    assert cited["url"].startswith(f"{site.url}/docs/parking.html#:~:text=A%20parking%20permit")
    with AnaphoraClient(running.url) as client:
        assert client.ask("How much is a parking permit?", collection="docs").sources[0].url == cited["url"]
    answer = running.call(AskTool(question="How much is a parking permit?", collection="docs").run(running.service))
    assert answer["sources"][0]["url"] == cited["url"]

    del site.pages["/docs/parking.html"]
    site.html("/docs/", "<h1>Help desk</h1><p>The help desk is closed.</p>")
    dry = finished(running, ask(running, "POST", "/v1/sources/site/sync?dry_run=true", status=202))
    assert {(item.document_id[-12:], item.message.partition(":")[0]) for item in dry.files} == {
        ("parking.html", "deleted"),
        (f"{site.url}/docs/"[-12:], "changed"),
    }
    assert "site/docs/parking.html" in documents(running)
    finished(running, ask(running, "POST", "/v1/sources/site/sync", status=202))
    assert "site/docs/parking.html" not in documents(running)

    site.status = 500
    failed = finished(running, ask(running, "POST", "/v1/sources/site/sync", status=202))
    assert "HTTP 500" in failed.files[0].message
    assert "site/docs.html" in documents(running), "what it does not see deleted stays"
    finished(running, ask(running, "POST", "/v1/collections/docs/reindex", status=202))
    assert {"site/docs.html", "leave.md"} < set(documents(running))

    finished(running, ask(running, "DELETE", "/v1/sources/site", status=202))
    assert set(documents(running)) == {"leave.md", "security.md", "travel.md"}
    ask(running, "GET", "/v1/sources/site", status=404)


def test_pushed_documents_replace_one_another_and_can_be_deleted(running: Running) -> None:
    ask(running, "POST", "/v1/sources", {"name": "wiki", "collection": "wiki", "kind": "push"}, status=201)
    place = "/v1/sources/wiki/documents/pages/42"
    body = {"text": "# Lockers\n\nLockers are free.", "title": "Lockers", "url": "https://wiki.example.org/42"}
    finished(running, ask(running, "PUT", place, body, status=202))
    finished(running, ask(running, "PUT", place, {**body, "text": "Lockers cost a euro."}, status=202))
    ((name, document),) = documents(running, "wiki").items()
    assert (name, document["title"], document["source"]) == ("wiki/pages/42.md", "Lockers", body["url"])
    assert "cost a euro" in ask(running, "GET", f"/v1/collections/wiki/documents/{name}")["text"]
    finished(running, ask(running, "PUT", place, {**body, "url": "javascript:alert(1)"}, status=202))
    assert documents(running, "wiki")[name]["source"] == name
    finished(running, ask(running, "DELETE", place, status=202))
    assert documents(running, "wiki") == {}
    ask(running, "PUT", "/v1/sources/none/documents/x", body, status=404)
    folder = {"name": "f", "collection": "docs", "kind": "folder", "location": "relative"}
    assert "full path" in ask(running, "POST", "/v1/sources", folder, status=400)["error"]["message"]


def test_pushed_documents_count_in_what_is_stored(serve: Serve, settings_for: MakeSettings) -> None:
    running = serve(settings_for("none", limits={"stored_mb": {"local": 1}}))
    for name in ("wiki", "forum"):
        ask(running, "POST", "/v1/sources", {"name": name, "collection": "wiki", "kind": "push"}, status=201)
    body = {"text": f"<p>Lockers are free.</p><!--{700_000 * 'x'}-->", "format": "html"}
    finished(running, ask(running, "PUT", "/v1/sources/wiki/documents/a/b", body, status=202))
    finished(running, ask(running, "PUT", "/v1/sources/wiki/documents/a/b", body, status=202))
    refused = ask(running, "PUT", "/v1/sources/forum/documents/c", body, status=413)["error"]
    assert (refused["code"], refused["param"]) == ("storage_limit", "text")
    assert "Your files have 0.7 MiB" in refused["message"]
    finished(running, ask(running, "DELETE", "/v1/sources/wiki/documents/a/b", status=202))
    finished(running, ask(running, "PUT", "/v1/sources/forum/documents/c", body, status=202))
    finished(running, ask(running, "DELETE", "/v1/sources/forum", status=202))
    finished(running, ask(running, "PUT", "/v1/sources/wiki/documents/d", body, status=202))


def test_a_watched_folder_and_what_is_due_are_read_by_themselves(running: Running, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.md").write_text("# One\n\nThe canteen opens at noon.\n", "utf-8")
    described = {"name": "notes", "collection": "docs", "kind": "folder", "location": str(folder), "watch": True}
    finished(running, ask(running, "POST", "/v1/sources", described, status=201)["busy"])
    scheduled = {"name": "due", "collection": "other", "kind": "folder", "location": str(folder), "every": "1h"}
    finished(running, ask(running, "POST", "/v1/sources", scheduled, status=201)["busy"])
    state = running.service.settings.home / "sources" / "due" / "state.json"
    state.write_text(json.dumps({**json.loads(state.read_text("utf-8")), "due": 1.0}), "utf-8")

    async def look() -> None:
        following = asyncio.create_task(follow(running.service, 0.1))
        try:
            for number in range(2000):
                # Whoever watches needs a moment to begin, and a busy machine time to read before the next change.
                if number % 10 == 0:
                    (folder / "two.md").write_text(f"# Two\n\nThe canteen closes at {number}.\n", "utf-8")
                await asyncio.sleep(0.1)
                ids = [
                    row.id for name in ("docs", "other") for row in await running.service.collections.documents(name)
                ]
                if {"notes/two.md", "due/two.md"} <= set(ids):
                    return
            raise AssertionError("the new file is not seen")
        finally:
            following.cancel()

    running.call(look(), 240)
    # The documents are there a moment before it is noted when they are read again.
    eventually(lambda: ask(running, "GET", "/v1/sources/due")["due"] > time.time() + 3000)
    with running.client() as client:
        eventually(lambda: client.delete("/v1/collections/other").status_code == 204)
    ask(running, "GET", "/v1/sources/due", status=404)


def test_a_source_is_added_read_and_removed_from_a_terminal(command_home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.md").write_text("# One\n\nThe canteen opens at noon.\n", "utf-8")

    add_plugin_commands()

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["sources", *arguments])
        assert done.exit_code == code, done.output
        return done.output

    assert "1 indexed" in run("add", "notes", str(folder), "-c", "docs", "--every", "6h")
    (folder / "one.md").unlink()
    assert "nothing was deleted" in run("sync", "notes", code=3)
    (folder / "two.md").write_text("# Two\n\nThe canteen closes at two.\n", "utf-8")
    assert "deleted: not done" in run("sync", "notes", "--dry-run")
    assert "1 deleted, 1 indexed" in run("sync", "notes")
    assert "notes" in run("list")
    assert "1 deleted" in run("remove", "notes", "--yes")
    assert "no source" in run("sync", "notes", code=4)
    assert "no folder" in run("add", "typo", str(folder / "typo"), code=3)
    assert "kind folder has no branch" in run("add", "x", str(folder), "-s", "branch=main", code=3)


class TestPlugin(PluginContract):
    name = "sources"
