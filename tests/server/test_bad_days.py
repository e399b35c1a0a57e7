"""Full and read-only disks, clocks that jump, language models that hang or talk nonsense, two servers on one home.

Nothing that was acknowledged is lost, nothing hangs, and `/ready` or one sentence says what is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from server.chat import admin as probes
from server.chat.loaded_models import FAILED_ANSWERS
from server.store import jobs
from server.store.records import Job
from tests.rows import MINE

QUESTION = {"question": "How long is parental leave?"}
YEAR = 365 * 86_400.0


def begin(client: Any) -> str:
    conversation: str = client.post("/v1/conversations", json={"collection": "docs"}).json()["id"]
    return conversation


def ask(client: Any, conversation: str, question: str = QUESTION["question"]) -> dict[str, Any]:
    """The last event of a turn."""
    answer = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question})
    assert answer.status_code == 200, answer.text
    return dict(json.loads(answer.text.rsplit("data: ", 1)[1]))


def problems(client: Any) -> str:
    answer = client.get("/ready")
    assert answer.status_code == 503
    return " ".join(answer.json()["problems"])


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system, or again with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mounted(options: str) -> Path:
        again = ["-o", f"remount,{options}"] if os.path.ismount(folder) else ["-o", options]
        done = subprocess.run(
            ["mount", "-t", "tmpfs", *again, "tmpfs", str(folder)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"mounting a small file system needs root and the right to mount: {done.stderr.strip()}")
        return folder

    yield mounted
    subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def take_the_rest(file: Path) -> None:
    with file.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


@pytest.mark.extended
def test_on_a_full_disk_nothing_is_lost_and_everything_else_is_refused(
    serve: Any, settings_for: Any, llm: Any, mount: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "RESERVE", 1 << 20)
    monkeypatch.setattr(probes, "REMEMBERED_SECONDS", 0.0)
    settings = settings_for(llm.url)
    home = mount("size=20m") / "home"
    shutil.move(settings.home, home)
    settings = settings.model_copy(update={"home": home})
    running = serve(settings)
    running.call(running.service.core.warm())
    uploads, turns, ratings = list[str](), dict[str, str](), list[str]()
    with running.client() as client:
        assert client.get("/ready").status_code == 200
        conversation = begin(client)
        full = 0
        for n in range(60):
            text = f"# File {n}\n\nIts word is word{n}.\n" + "<!-- " + "x" * (4 << 20) + " -->"
            answer = client.post("/v1/collections/docs/documents", files={"file": (f"file{n}.md", text.encode())})
            assert answer.status_code in (202, 503), answer.text
            if answer.status_code == 202:
                uploads.append(f"file{n}.md")
                running.finished(answer.json()["id"])
            else:
                full += 1
            done = ask(client, conversation)
            assert done["type"] == "done", "a question is answered all the same"
            if not done["warning"]:
                turns[done["turn_id"]] = done["answer"]
            rated = client.post("/v1/feedback", json={"turn_id": done["turn_id"], "rating": "up"})
            assert rated.status_code in (200, 503, 404 if done["warning"] else 200), rated.text
            if rated.status_code == 200:
                ratings.append(done["turn_id"])
            if full > 2:
                break
        assert full > 2
        assert uploads
        # What is left is taken by others.
        with pytest.raises(OSError, match="No space left"):
            take_the_rest(home / "ballast")
        assert "tored" in problems(client) or "free some space" in problems(client)
        assert client.get(f"/v1/conversations/{conversation}").status_code == 200
        assert client.post("/v1/search", json={"query": "leave"}).status_code == 200
    running.stop()
    mount("size=100m")
    (home / "ballast").unlink()
    again = serve(settings)
    again.call(again.service.core.warm())
    with again.client() as client:
        assert client.get("/ready").status_code == 200
        kept = {turn["id"]: turn for turn in client.get(f"/v1/conversations/{conversation}").json()["messages"]}
        assert {turn: kept[turn]["answer"] for turn in turns} == turns
        assert all(kept[turn]["feedback"] for turn in ratings)
        assert ask(client, conversation)["warning"] == ""
        job = client.post("/v1/collections/docs/reindex").json()
        assert again.finished(job["id"]).state == "done"
        there = {document["id"] for document in client.get("/v1/collections/docs/documents").json()["data"]}
        assert {f"uploads/{name}" for name in uploads} <= there


def test_a_read_only_home_is_named_in_one_sentence(
    settings_for: Any, mount: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    from cli import app

    settings = settings_for("none")
    home = mount("size=30m") / "home"
    shutil.move(settings.home, home)
    mount("ro")
    result = CliRunner().invoke(app, ["--home", str(home), "serve", "--port", "0"])
    said = " ".join((result.output + str(result.exception) + capfd.readouterr().err).split())
    assert result.exit_code != 0
    assert "Read-only file system" in said
    assert str(home.name) in said
    assert "Traceback" not in said


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock this many seconds off; what measures durations goes on."""
    real, real_ns = time.time, time.time_ns

    def off(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))

    return off


@pytest.mark.extended
@pytest.mark.parametrize("jump", [-10 * YEAR, 10 * YEAR])
def test_a_clock_that_jumps_costs_nothing(
    serve: Any, settings_for: Any, llm: Any, clock: Callable[[float], None], jump: float
) -> None:
    running = serve(settings_for(llm.url))
    with running.client() as client:
        conversation = begin(client)
        before = ask(client, conversation)
        llm.pieces, llm.pace = ["Parental ", "leave ", "lasts ", "ten weeks. [1]"], 0.1
        with client.stream("POST", f"/v1/conversations/{conversation}/turns", json=QUESTION) as answer:
            lines = answer.iter_lines()
            assert any('"token"' in line for line in lines)
            clock(jump)
            assert any('"type":"done"' in line for line in lines), "no deadline has passed"
        trace = running.traced(answer.headers["x-turn-id"])
        assert all(0 <= step["seconds"] < 60 for step in trace["steps"])
        after = ask(client, conversation)
        messages = client.get(f"/v1/conversations/{conversation}").json()["messages"]
        assert [turn["id"] for turn in messages] == [
            before["turn_id"], answer.headers["x-turn-id"], after["turn_id"],
        ]  # fmt: skip
        job = client.post("/v1/collections/docs/reindex").json()
        assert running.finished(job["id"]).state == "done"
        assert client.get("/v1/jobs").json()["data"][0]["id"] == job["id"], "the newest is first"


def test_the_newest_jobs_are_kept_though_the_clock_was_set_back(running: Any) -> None:
    def job(n: int) -> Job:
        at = 1e9 - n
        return Job(id=f"job{n}", kind="reindex", collection="docs", state="done", created=at, updated=at)

    def fill(connection: Any) -> None:
        for n in range(jobs.KEPT + 10):
            jobs.add(connection, job(n), "runner", MINE)

    running.service.core.database.write_blocking(fill)
    with running.client() as client:
        assert client.get(f"/v1/jobs/job{jobs.KEPT + 9}").status_code == 200
        assert client.get("/v1/jobs/job0").status_code == 404


NONSENSE = {
    "a web page": b"<!doctype html><html><body>Bad gateway</body></html>",
    "no JSON": b"data: {{{\n\n",
    "a list": b"data: [1, 2]\n\n",
    "other shapes": b'data: {"choices": {"a": 1}}\n\n',
    "text where an object belongs": b'data: {"choices": [{"delta": "hello"}]}\n\n',
    "numbers for text": b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
    "bytes": bytes(range(256)) * 8 + b"\n\n",
    "an endless line": b"data: " + b"x" * (2 << 20),
    "an error": b'data: {"error": {"message": "CUDA out of memory"}}\n\n',
    "half a character": b'data: {"error": {"message": "\\ud83d"}}\n\n',
    "nothing": b"data: [DONE]\n\n",
}


def test_nonsense_from_a_language_model_is_an_error_that_says_so(running: Any, llm: Any) -> None:
    with running.client() as client:
        conversation = begin(client)
        for kind, raw in NONSENSE.items():
            llm.raw = raw
            ending = ask(client, conversation)
            assert (ending["type"], ending["code"]) == ("error", "llm_failed"), kind
        assert "language model failed" in problems(client)
        llm.raw = b""
        assert ask(client, conversation)["type"] == "done"
        assert client.get("/ready").status_code == 200


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ({"silence": 60.0}, "llm_timeout"),
        *(
            pytest.param(*case, marks=pytest.mark.extended)
            for case in (
                ({"status": 500}, "llm_failed"),
                ({"die_after": 0}, "llm_unreachable"),
                ({"deaf": True}, "llm_timeout"),
                ({"pace": 60.0}, "llm_timeout"),
            )
        ),
    ],
)
def test_a_language_model_in_trouble_is_named(
    serve: Any, settings_for: Any, llm: Any, trouble: dict[str, Any], code: str
) -> None:
    # A refusal is tried again, a little later each time; who dies is told apart from who takes long.
    seconds = 0.3 if code == "llm_timeout" else 10.0
    running = serve(settings_for(llm.url, llm={"model": llm.url, "timeout_seconds": seconds}))
    running.call(running.service.core.warm())
    with running.client() as client:
        conversation = begin(client)
        for name, value in trouble.items():
            setattr(llm, name, value)
        for _ in range(FAILED_ANSWERS):
            ending = ask(client, conversation)
            assert (ending["type"], ending["code"]) == ("error", code)
        assert "language model" in problems(client)
        for name in trouble:
            setattr(llm, name, type(llm).__dataclass_fields__[name].default)
        # On a busy machine even a good answer may take longer than these limits.
        endings = (ask(client, conversation)["type"] for _ in range(20))
        assert "done" in endings
        assert client.get("/ready").status_code == 200
        statuses = [turn["status"] for turn in client.get(f"/v1/conversations/{conversation}").json()["messages"]]
        assert statuses[:FAILED_ANSWERS] == ["failed"] * FAILED_ANSWERS
        assert statuses[-1] == "answered"


def test_a_language_model_that_never_lists_its_models_is_named(
    serve: Any, settings_for: Any, llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from server.engines import remote

    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.3)
    llm.deaf = True
    running = serve(settings_for(llm.url))
    running.call(running.service.core.warm())
    with running.client() as client:
        assert "does not answer" in problems(client)
        llm.deaf = False
        monkeypatch.setattr(remote, "CONNECT_SECONDS", 60.0)
        assert ask(client, begin(client))["type"] == "done"
        assert client.get("/ready").status_code == 200
