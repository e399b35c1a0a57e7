"""Several servers on one home and one database: nothing is lost when some of them are killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from server.store import jobs
from server.store.records import Job
from tests.eventually import eventually
from tests.rows import MINE


def test_what_a_server_that_ended_had_begun_on_collections_is_gone_on_with(
    serve: Any, settings_for: Any, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.chat.service.TAKE_OVER_SECONDS", 0.1)
    running = serve(settings_for("none"))
    core = running.service.core
    uploaded = core.uploads.root("box") / "uploads" / "fax.md"
    uploaded.parent.mkdir(parents=True)
    uploaded.write_text("# Fax\n\nThe fax number is 555-0142.\n", "utf-8")
    (documents / "new.md").write_text("# New\n\nA page that came later.\n", "utf-8")
    now = time.time()
    try:
        # One was killed, the other was stopped and has said so itself.
        for kind, collection, state in (("reindex", "docs", "running"), ("upload", "box", "interrupted")):
            job = Job(id=f"{kind}-1", kind=kind, collection=collection, state=state, created=now, updated=now)  # type: ignore[arg-type]
            core.database.write_blocking(lambda c, job=job: jobs.add(c, job, "another-server", MINE))
        with running.client() as client:

            def states() -> set[tuple[str, str]]:
                return {(job["kind"], job["state"]) for job in client.get("/v1/jobs").json()["data"]}

            eventually(lambda: {("upload", "done"), ("reindex", "done")} <= states())
            assert {("upload", "interrupted"), ("reindex", "interrupted")} <= states()
            found = client.get("/v1/collections/box/documents").json()["data"]
            assert [one["id"] for one in found] == ["uploads/fax.md"]
            assert client.get("/v1/collections/docs/documents/new.md").status_code == 200
    finally:
        (documents / "new.md").unlink()
