"""`anaphora serve` and `anaphora keys`, as a person runs them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from typer.testing import CliRunner

from cli import app
from cli.serve import _about, own_documentation, tell, watch
from cli.shared.error_handler import ExitCode
from cli.shared.state import State
from server.chat import ChatService, CollectionSummary, Readiness
from server.store.records import FileResult, Job
from tests.installed import left_out
from tests.openai_server import FakeOpenAIServer
from text.sanitize import is_showable

MAIN = "from cli import main; main()"


def command(home: Path, *arguments: str, **environment: str) -> tuple[list[str], dict[str, str]]:
    values = {**os.environ, "ANAPHORA_HOME": str(home), "ANAPHORA_RETRIEVAL__RERANK": "never", **environment}
    return [sys.executable, "-c", MAIN, *arguments], values


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line, values = command(home, *arguments, **environment)
    return subprocess.run(line, env=values, capture_output=True, text=True, timeout=180, check=False)


def call(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `run`, in this process: a new one costs a second, and here nothing hangs on it."""
    _, values = command(home, **environment)
    ended = CliRunner().invoke(app, list(arguments), env=values)
    return subprocess.CompletedProcess(arguments, ended.exit_code, ended.stdout, ended.stderr)


@pytest.mark.extended
@pytest.mark.slow
def test_a_plain_installation_serves_a_folder_and_answers(model_home: Path, documents: Path, tmp_path: Path) -> None:
    """Nothing that only an extra brings can be imported: no torch, no transformers, no langchain."""
    home = tmp_path / "home"
    docs = Path(shutil.copytree(documents, tmp_path / "documents"))
    (docs / "evil\x1b]0;owned\x07\x1b[2J\x9b\nerror: all is lost \u202efdp.pdf").write_bytes(b"%PDF-1.7 nothing")
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({left_out()!r}))\n", "utf-8"
    )
    encoder = str(model_home / "models" / "bge-small-en-v1.5")
    arguments = ("serve", "--docs", str(docs), "--port", "0", "--model", "none")
    line, values = command(home, *arguments, ANAPHORA_INDEX__ENCODER=encoder, PYTHONPATH=str(tmp_path))
    process = subprocess.Popen(line, env=values, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "Anaphora serves docs at http://127.0.0.1:" in said, said
        assert said.endswith(" (3 documents, answered in quotes, without a model; Ctrl-C ends)\n"), said
        url = said.split(" at ")[1].split()[0]
        with httpx.Client(base_url=url, timeout=90, verify=False) as client:
            assert client.get("/ready").status_code == 200
            assert "text/html" in client.get("/").headers["content-type"]
            request = {"model": "docs", "messages": [{"role": "user", "content": "How long is parental leave?"}]}
            answer = client.post("/v1/chat/completions", json=request).json()
            assert "Parental leave lasts ten weeks." in answer["choices"][0]["message"]["content"]
            assert answer["anaphora"]["status"] == "quoted"
            request["messages"] += [answer["choices"][0]["message"], {"role": "user", "content": "And how do I apply?"}]
            answer = client.post("/v1/chat/completions", json=request).json()
            assert "Apply with form PL-7" in answer["choices"][0]["message"]["content"]
            assert answer["anaphora"]["rewrite"]["rewriter"] == "terms"
            assert answer["anaphora"]["rewrite"]["expansion"] == ["Parental leave"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        assert "Traceback" not in out + err
        assert "Stopped." in err
        assert "evil]0;owned[2J error: all is lost fdp.pdf" in err
        assert is_showable(out + err)
    finally:
        process.kill()
        process.wait()


def test_a_checkout_serves_its_own_documentation() -> None:
    assert own_documentation() == [Path(__file__).resolve().parents[2] / "docs"]


def test_an_unknown_model_stops_with_the_nearest_name(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["--home", str(tmp_path / "home"), "serve", "--port", "0", "--model", "qwen2.5-coder-1.5b-instrukt"]
    )
    assert result.exit_code == ExitCode.BAD_INPUT, result.output
    assert "Did you mean 'qwen2.5-coder-1.5b-instruct'?" in " ".join(result.stderr.split())
    assert not (tmp_path / "home" / "models").exists()


def test_the_first_start_tells_what_answers_and_what_could(
    llm: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.serve import _tell_answering
    from cli.shared.state import State
    from server.settings import SERVERS, LLMSettings, Settings

    monkeypatch.setitem(SERVERS, "ollama", llm.url)
    monkeypatch.setattr("server.installation.machine_memory", lambda: 8 * 10**9)
    monkeypatch.setattr("server.installation.LOOK_SECONDS", 60)
    state, home = State(), tmp_path / "home"
    with state.err.capture() as told:
        _tell_answering(Settings(home=home, llm=LLMSettings()), state)
        _tell_answering(Settings(home=home, llm=LLMSettings(model="smollm2-135m-instruct")), state)
        (home / "collections").mkdir(parents=True)
        _tell_answering(Settings(home=home, llm=LLMSettings()), state)
    (line,) = told.get().splitlines()
    assert line.startswith(("Answers are quoted", f"{LLMSettings().model} answers."))
    assert "`make run MODEL=qwen3-4b-instruct-2507`" in line
    assert line.endswith(f"{llm.url}; use it with MODEL=ollama:fake.")


def test_a_taken_port_is_said_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = call(tmp_path, "serve", "--port", str(port), "--model", "none")
    assert ended.returncode != 0
    assert f"port {port}" in ended.stderr
    assert "--port" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.extended
def test_a_home_has_one_server_and_commands_beside_it(tmp_path: Path) -> None:
    from server.store.home import hold_home

    assert call(tmp_path, "keys", "create", "x").returncode == 0
    with hold_home(tmp_path):
        second = run(tmp_path, "serve", "--port", "0", "--model", "none")
        assert second.returncode == 5
        assert f"`anaphora serve`, process {os.getpid()}, since" in second.stderr
        assert "--home" in second.stderr
        assert "Traceback" not in second.stderr
        elsewhere = {"ANAPHORA_DATABASE__URL": "postgresql://me@127.0.0.1:9/none"}
        several = run(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", "--model", "none", **elsewhere)
        assert "127.0.0.1:9" in several.stderr, "servers with one database share a home"
        assert call(tmp_path, "keys", "list").returncode == 0
        assert call(tmp_path, "backup", str(tmp_path / "b.tar")).returncode == 0
        refused = run(tmp_path, "restore", "--yes", str(tmp_path / "b.tar"))
        assert refused.returncode == 5
        assert f"process {os.getpid()}" in refused.stderr
    made = call(tmp_path, "keys", "create", "later")
    assert "later" in call(tmp_path, "keys", "list").stdout
    assert call(tmp_path, "restore", str(tmp_path / "b.tar")).returncode != 0, "nobody said yes"
    restored = call(tmp_path, "restore", "--yes", str(tmp_path / "b.tar"))
    assert restored.returncode == 0, restored.stderr
    listed = call(tmp_path, "keys", "list").stdout
    assert made.stdout.split("_")[1] not in listed
    assert " x " in listed


def test_other_machines_are_not_served_without_a_key(tmp_path: Path) -> None:
    ended = call(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0", "--model", "none")
    assert ended.returncode == 9
    assert "anaphora keys create" in ended.stderr


def test_documents_that_are_not_there_are_said_so(tmp_path: Path) -> None:
    ended = call(tmp_path, "serve", "--docs", str(tmp_path / "nowhere"), "--port", "0")
    assert ended.returncode == 3
    assert "nowhere" in ended.stderr


def test_a_folder_without_documents_starts_no_server(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "picture.png").write_bytes(b"PNG")
    ended = call(tmp_path / "home", "serve", "--docs", str(tmp_path / "empty"), "--port", "0", "--model", "none")
    assert (ended.returncode, ended.stdout) == (ExitCode.BAD_INPUT, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: There is no document in {tmp_path / 'empty'}; correct --docs")


def test_serving_tells_who_answers_how_much() -> None:
    def about(documents: int, engine: str) -> str:
        summary = CollectionSummary(name="docs", documents=documents, passages=9, version="v", updated=0.0)
        return _about(summary, Readiness(ready=True, engine=engine, collection="docs"))

    assert about(1, "local:qwen2.5-coder") == "1 document, answered by qwen2.5-coder"
    assert about(1200, "openai:big@gpu.example") == "1,200 documents, answered by big@gpu.example"
    assert about(2, "") == "2 documents"
    assert _about(None, Readiness(ready=False, engine="", collection="docs")) == "0 documents"


def test_what_was_left_out_of_a_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    cut = FileResult(document_id="a\x1b.txt", status="indexed", message="only its first 20,000 passages", passages=9)
    job = Job(id="i", kind="index", collection="docs", state="done", files=(cut,), created=1.0, updated=1.0)
    tell(State(), job)
    assert capsys.readouterr().err.splitlines() == [
        "a.txt (indexed): only its first 20,000 passages",
        "docs: 1 files, 9 passages.",
    ]


def test_a_key_is_shown_once_listed_and_revoked(tmp_path: Path) -> None:
    made = call(tmp_path, "keys", "create", "my laptop")
    secret = made.stdout.strip()
    assert secret.startswith("ana_")
    assert len(secret) > 50
    listed = call(tmp_path, "keys", "list")
    assert "my laptop" in listed.stdout
    assert secret not in listed.stdout
    key_id = secret.split("_")[1]
    assert key_id in listed.stdout
    assert "active keys" in call(tmp_path, "keys", "revoke", "--open", "--yes").stderr
    revoked = call(tmp_path, "keys", "revoke", key_id)
    assert revoked.returncode == 0
    assert "anaphora keys revoke --open" in revoked.stderr
    again: Any = call(tmp_path, "keys", "revoke", key_id)
    assert again.returncode == 3
    assert "no active key" in again.stderr
    assert call(tmp_path, "keys", "revoke", "--open").returncode != 0, "nobody said yes"
    assert key_id in call(tmp_path, "keys", "list").stdout
    assert call(tmp_path, "keys", "revoke", "--open", "--yes").returncode == 0
    assert key_id not in call(tmp_path, "keys", "list").stdout


def test_what_waits_for_another_job_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    upload = Job(id="u", kind="upload", collection="docs", state="running", created=1.0, updated=1.0)
    waiting = upload.model_copy(update={"id": "s", "kind": "sync", "state": "queued"})
    later = [waiting, waiting, waiting.model_copy(update={"state": "done"})]

    class Busy:
        @property
        def admin(self) -> Busy:
            return self

        async def job(self, job_id: str) -> Job:
            return later.pop(0)

        async def jobs(self, collection: str) -> list[Job]:
            return [waiting, upload]

    assert asyncio.run(watch(cast("ChatService", Busy()), State(), waiting)).state == "done"
    assert capsys.readouterr().err == "Waiting for the job (upload) that works on docs now.\n"
