"""The local engine with a real, small model: its answers, its deaths, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import openai
import psutil
import pytest

from server.engines import EngineFailed, LocalEngine, NoEngine, open_engine, supervisor
from server.registry import ModelNotFetched, resolve
from server.settings import LLMSettings, Settings
from tests.eventually import eventually

STORY = "Write a long story about a cat."


@pytest.fixture(scope="module")
def model(model_home: Path) -> str:
    return resolve("smollm2-135m-instruct", model_home)


@pytest.fixture(scope="module")
def engine(model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """One of our own, since most of these tests are not kind to it."""
    llm = LLMSettings(model=model, answer_tokens=2000, context_tokens=2048)
    engine = LocalEngine(Settings(home=tmp_path_factory.mktemp("engine"), llm=llm))
    with engine:
        yield engine


async def pieces(engine: LocalEngine, prompt: str, **options: object) -> AsyncIterator[str]:
    async for chunk in engine.chat_model().astream(prompt, **options):
        if chunk.content:
            yield str(chunk.content)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_an_answer_is_streamed_with_its_token_counts(engine: LocalEngine) -> None:
    async def read() -> tuple[list[str], dict[str, int]]:
        texts, usage = [], {}
        async for chunk in engine.chat_model().astream(STORY, max_tokens=40):
            texts += [str(chunk.content)] if chunk.content else []
            usage = dict(chunk.usage_metadata or usage)
        return texts, usage

    texts, usage = asyncio.run(read())
    assert len(texts) > 5
    assert usage["output_tokens"] == 40
    assert usage["input_tokens"] > 10


def test_an_answer_can_be_bound_to_a_json_schema(engine: LocalEngine) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    bound = engine.chat_model().bind(
        response_format={"type": "json_schema", "json_schema": {"name": "cat", "schema": schema, "strict": True}},
        max_tokens=60,
    )
    answer = json.loads(str(bound.invoke("How old is a cat? Give a number.").content))
    assert list(answer) == ["age"]
    assert isinstance(answer["age"], int)


@pytest.mark.extended
def test_a_reader_who_leaves_frees_the_engine(engine: LocalEngine) -> None:
    """Four abandoned stories of 1,900 tokens cost much less work than 190 times that of 40 tokens."""
    process = psutil.Process(engine.pid)

    def work() -> float:
        spent = process.cpu_times()
        return float(spent.user + spent.system)

    async def read(prompt: str, tokens: int) -> None:
        async for _ in pieces(engine, prompt, max_tokens=tokens):
            pass

    async def leave_then_ask() -> None:
        for _ in range(4):
            stream = pieces(engine, STORY, max_tokens=1900)
            await anext(stream)
            await stream.aclose()
        await read("Say hello.", 4)

    before = work()
    asyncio.run(read(STORY, 40))
    forty = work() - before
    asyncio.run(leave_then_ask())
    assert work() - before - forty < 60 * forty


def test_dying_mid_stream_is_an_error_at_once_and_the_next_request_is_answered(engine: LocalEngine) -> None:
    async def read() -> str:
        stream = pieces(engine, STORY)
        await anext(stream)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(openai.APIConnectionError):
            [piece async for piece in stream]
        return "".join([piece async for piece in pieces(engine, "Say hello.", max_tokens=4)])

    before = engine.pid
    assert asyncio.run(read())
    assert engine.pid != before


def test_ctrl_c_in_the_terminal_leaves_the_engine_running(engine: LocalEngine) -> None:
    assert engine.pid is not None
    assert os.getpgid(engine.pid) != os.getpgid(0), "a Ctrl-C would reach it"
    os.kill(engine.pid, signal.SIGINT)
    assert engine.chat_model().invoke("Say hello.", max_tokens=1).content
    assert engine.healthy()


def test_no_other_user_can_reach_it_and_no_port_is_open(engine: LocalEngine) -> None:
    assert engine.pid is not None
    assert engine._running is not None
    socket = engine._running.folder / "engine.sock"
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    process = psutil.Process(engine.pid)
    assert str(socket) in {connection.laddr for connection in process.net_connections("unix")}
    assert not process.net_connections("inet")


@pytest.mark.extended
def test_it_ends_with_its_parent_even_by_kill_9(model: str, tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from server.engines import open_engine
        from server.settings import LLMSettings, Settings

        engine = open_engine(Settings(home=Path({str(tmp_path)!r}), llm=LLMSettings(model={model!r})))
        engine.start()
        print(engine.pid, engine._running.folder, flush=True)
        input()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert alive(int(pid))
    parent.kill()
    parent.communicate()
    eventually(lambda: not alive(int(pid)))
    assert not Path(folder).exists()


def test_stopping_ends_the_process_and_removes_its_folder(model: str, tmp_path: Path) -> None:
    engine = LocalEngine(Settings(home=tmp_path, llm=LLMSettings(model=model)))
    engine.start()
    pid, folder = engine.pid, engine._running.folder if engine._running else tmp_path
    assert pid is not None
    engine.stop()
    engine.stop()
    assert not alive(pid)
    assert not folder.exists()
    assert not engine.healthy()
    with pytest.raises(EngineFailed, match="not started"):
        engine.chat_model()


@pytest.mark.extended
def test_it_is_given_up_after_repeated_deaths(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", 0.01)
    engine = LocalEngine(Settings(home=tmp_path, llm=LLMSettings(model=model)))
    with engine:
        chat_model = engine.chat_model()
        killed = set[int]()
        for _ in range(supervisor.DEATHS):
            eventually(lambda: engine.pid not in {None, *killed} and engine.healthy())
            assert engine.pid is not None
            killed.add(engine.pid)
            os.kill(engine.pid, signal.SIGKILL)
        eventually(lambda: engine._running is not None and engine._running.supervisor.status == "failed")
        assert not engine.healthy()
        with pytest.raises(openai.APIConnectionError) as caught:
            asyncio.run(chat_model.ainvoke("Say hello."))
        reason: BaseException = caught.value
        while reason.__cause__ is not None:
            reason = reason.__cause__
        assert "it died 4 times in a row (exit status -9)" in str(reason)


@pytest.mark.extended
def test_a_file_that_is_no_model_fails_at_once_and_names_the_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    with pytest.raises(EngineFailed, match=r"broken\.gguf could not be loaded .*engine\.log"):
        LocalEngine(Settings(home=tmp_path, llm=LLMSettings(model=str(broken)))).start()
    assert "broken.gguf" in (tmp_path / "logs" / "engine.log").read_text()


HOSTILE = "import pathlib; pathlib.Path({mark!r}).touch()"


@pytest.mark.parametrize(
    "path", [".", *(pytest.param(path, marks=pytest.mark.extended) for path in (None, "", f"{os.pathsep}/nowhere"))]
)
def test_the_working_directory_stands_in_for_no_module_of_the_worker(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, folder, broken = tmp_path / "mark", tmp_path / "cwd", tmp_path / "broken.gguf"
    for name in ("server/__init__", "server/engines/__init__", "server/engines/worker", "json", "xllamacpp"):
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HOSTILE.format(mark=str(mark)))
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    monkeypatch.chdir(folder)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    with pytest.raises(EngineFailed, match=r"broken\.gguf could not be loaded"):
        LocalEngine(Settings(home=tmp_path, llm=LLMSettings(model=str(broken)))).start()
    assert not mark.exists()


def test_a_model_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    def start(model: str) -> None:
        open_engine(Settings(home=tmp_path, llm=LLMSettings(model=model))).start()

    with pytest.raises(ModelNotFetched, match="anaphora models fetch smollm2-135m-instruct"):
        start("smollm2-135m-instruct")
    with pytest.raises(EngineFailed, match=r"There is no file .*missing\.gguf"):
        start(str(tmp_path / "missing.gguf"))
    with pytest.raises(EngineFailed, match="'gpt-9', which is no model of the registry"):
        start("gpt-9")


def test_none_has_no_chat_model(tmp_path: Path) -> None:
    with open_engine(Settings(home=tmp_path, llm=LLMSettings(model="none"))) as engine:
        assert isinstance(engine, NoEngine)
        assert engine.chat_model() is None
        assert engine.healthy()
