"""Processes that only work off jobs, beside servers that leave all jobs to them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.chat.collections import work_of
from server.installation import check_workers
from server.jobs import JobRunner
from server.store.jobs import NO_WORKER
from tests.eventually import eventually
from tests.killing import Forgetful, child
from tests.rows import MINE
from text.files import write_text

PAGE = "# Fax\n\nThe fax number of the embassy is 555-0142.\n"


def test_work_of_another_version_or_of_a_method_that_is_no_job_is_refused(running: Any) -> None:
    from index.errors import IndexingError

    for service, method in (("CollectionService", "delete"), ("CollectionService", "_work_later"), ("Gone", "_work")):
        work = work_of(running.service.core, "docs", f'["{service}", "{method}", {{}}]')
        with pytest.raises(IndexingError, match="lacks a plugin"):
            list(work(None))  # type: ignore[arg-type]


def test_what_was_left_to_workers_is_done_by_a_server_that_is_set_to_do_its_jobs_again(
    serve: Any, settings_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.chat.service.TAKE_OVER_SECONDS", 0.1)
    running = serve(settings_for("none"))
    before = JobRunner(running.service.core.database, running.service.core.mark, hands_on=True)
    left = before.submit("reindex", "docs", lambda _: [], MINE, '["CollectionService", "_work_reindex", {}]')
    assert running.finished(left.id).state == "done"


class Holding(Forgetful):
    """Does nothing as long as there is a file, and says by another that it waits."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def encode(self, texts: Any) -> Any:
        if (self._folder / "hold").exists():
            write_text(self._folder / "held", "")
            eventually(lambda: not (self._folder / "hold").exists())
        return super().encode(texts)


def work_off(settings: str, folder: str, ready: Connection) -> None:
    """A worker as `anaphora worker` runs it, without /health."""
    from index import encoders
    from server.chat import open_service
    from server.settings import Settings

    encoders.load_encoder = lambda *_: Holding(Path(folder))

    async def main() -> None:
        async with open_service(Settings.model_validate_json(settings), warm=False, jobs_at_once=1):
            ready.send("working")
            await asyncio.Event().wait()

    asyncio.run(main())


def test_a_server_without_jobs_leaves_an_upload_to_a_worker_and_a_killed_one_s_job_to_the_next(
    serve: Any, settings_for: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.encoders.load_encoder", lambda *_: Forgetful())
    settings = settings_for("none", index={"encoder": "words"}, server={"workers": True, "port": 0})
    assert [finding.level for finding in check_workers(settings)] == ["warn"]
    running = serve(settings)
    with running.client() as client, ExitStack() as stack:
        assert NO_WORKER in client.get("/ready").json()["warnings"]
        write_text(tmp_path / "hold", "")
        files = {"file": ("fax.md", PAGE.encode())}
        job = client.post("/v1/collections/box/documents", files=files).json()
        assert job["message"] == NO_WORKER
        first, said = stack.enter_context(child(work_off, settings.model_dump_json(), str(tmp_path)))
        assert said.poll(120)
        assert [finding.level for finding in check_workers(settings)] == ["ok"]
        eventually((tmp_path / "held").exists)
        assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "running"
        assert NO_WORKER not in client.get("/ready").json()["warnings"]
        first.kill()
        first.join()
        (tmp_path / "hold").unlink()
        stack.enter_context(child(work_off, settings.model_dump_json(), str(tmp_path)))
        assert running.finished(job["id"]).state == "done"
        listed = client.get("/v1/collections/box/documents").json()["data"]
        assert [document["id"] for document in listed] == ["uploads/fax.md"]
        assert len(client.get("/v1/jobs?collection=box").json()["data"]) == 1, "it is the same job"


@contextmanager
def program(environment: dict[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`anaphora …`, and the address that it prints."""
    line = [sys.executable, "-c", "from cli import main; main()", *arguments, "--port", "0"]
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        yield process, next((word.removesuffix("/health") for word in told.split() if "http" in word), told)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_commands_in_processes_of_their_own_finish_what_killed_and_stopped_workers_began(
    kind: str, model_home: Path, documents: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("postgres_place") if kind == "postgresql" else ""
    environment = {
        **os.environ,
        "ANAPHORA_HOME": str(tmp_path / "home"),
        "ANAPHORA_INDEX__ENCODER": str(model_home / "models" / "bge-small-en-v1.5"),
        "ANAPHORA_RETRIEVAL__RERANK": "never",
        "ANAPHORA_SERVER__WORKERS": "true",
        "ANAPHORA_DATABASE__URL": database,
    }
    page = "# Lamps\n\n" + "".join(f"## Lamp {n}\n\nLamp {n} has a cord of {n} metres.\n\n" for n in range(2000))
    with ExitStack() as stack:

        def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
            return stack.enter_context(program(environment, *arguments))

        killed, health = start("worker")
        _, url = start("serve", "--model", "none", "--docs", str(documents))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=90, verify=False))

        def jobs() -> dict[str, dict[str, Any]]:
            return {job["kind"]: job for job in client.get("/v1/jobs").json()["data"]}

        def embeds() -> bool:
            return jobs().get("embed", {}).get("done", 0) > 0

        posted = client.post("/v1/collections/box/documents", files={"file": ("lamps.md", page.encode())}).json()
        assert httpx.get(f"{health}/health", verify=False).json() == {"status": "ok"}
        assert httpx.get(f"{health}/v1/jobs", verify=False).status_code == 404
        eventually(embeds)
        killed.kill()
        killed.wait()
        stopped, _ = start("worker")
        eventually(embeds)
        stopped.send_signal(signal.SIGTERM)
        _, err = stopped.communicate(timeout=120)
        assert stopped.returncode == 0, err
        assert "left to the next worker" in err
        assert jobs()["embed"]["state"] == "queued"
        start("worker")
        eventually(lambda: jobs()["embed"]["state"] == "done", seconds=300)
        assert jobs()["upload"]["id"] == posted["id"]
        assert jobs()["upload"]["state"] == "done"
        assert sorted(job["kind"] for job in client.get("/v1/jobs").json()["data"]) == ["embed", "index", "upload"]
        held = {row["name"]: row["without_vector"] for row in client.get("/v1/collections").json()["data"]}
        assert held == {"docs": 0, "box": 0}
