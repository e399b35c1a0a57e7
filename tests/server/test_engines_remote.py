"""The `openai` engine, against llama.cpp's real OpenAI-compatible server and one that only listens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from server.engines import EngineUnreachable, RemoteEngine, open_engine
from server.registry import resolve
from server.settings import LLMSettings, Settings

if TYPE_CHECKING:
    from testing.openai_server import FakeOpenAIServer

KEY = "a key of our own"

SERVER = """
    import sys, xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.model_alias = {"small"}
    params.n_ctx = 2048
    params.fit_params = False
    params.verbosity = 1
    params.api_keys = [sys.argv[2]]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url(model_home: Path) -> Iterator[str]:
    """llama.cpp on a port, wanting `KEY`."""
    model = resolve("smollm2-135m-instruct", model_home)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), model, KEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def remote(tmp_path: Path, url: str, **llm: object) -> RemoteEngine:
    options = {"model": url, "answer_tokens": 16, **llm}
    engine = open_engine(Settings(home=tmp_path, llm=LLMSettings.model_validate(options)))
    assert isinstance(engine, RemoteEngine)
    return engine


@pytest.mark.parametrize("path", ["", "/v1", "/v1/"])
def test_the_first_listed_model_answers(url: str, path: str, tmp_path: Path) -> None:
    with remote(tmp_path, url + path, api_key=SecretStr(KEY)) as engine:
        assert engine.name == "openai:small@127.0.0.1"
        assert engine.healthy()
        answer = engine.chat_model().invoke("Say hello.")
        assert answer.content
        assert answer.usage_metadata is not None
        assert 0 < answer.usage_metadata["output_tokens"] <= 16
    assert not engine.healthy()


def test_a_refused_key_is_told_at_the_start(url: str, tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable, match=r"refuses the key; set llm\.api_key"):
        remote(tmp_path, url, api_key=SecretStr("wrong")).start()


def test_a_server_that_is_not_there_is_told_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(EngineUnreachable, match=r"does not answer .* llm\.model, or use `none`"):
            remote(tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}/v1").start()


def test_a_named_model_is_asked_for_and_the_environment_s_key_is_not_sent(
    llm: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    with remote(tmp_path, llm.url, remote_name="mine") as engine:
        chat_model = engine.chat_model()
        assert chat_model.invoke("Hello?").content == "Parental leave lasts ten weeks. [1]"
    (request,) = llm.requests
    assert request["model"] == "mine"
    assert request["temperature"] == 0
    assert request["stream_options"] == {"include_usage": True}
    assert request["max_completion_tokens"] == 16
    key = getattr(chat_model, "openai_api_key", None)
    assert isinstance(key, SecretStr)
    assert "somebody" not in key.get_secret_value()


def test_extra_fields_reach_the_server(llm: FakeOpenAIServer, tmp_path: Path) -> None:
    with remote(tmp_path, llm.url) as engine:
        extra = {"cache_salt": "tenant-7", "structured_outputs": {"choice": ["yes", "no"]}}
        engine.chat_model().bind(extra_body=extra).invoke("Well?")
        engine.chat_model().invoke("Well?")
    with remote(tmp_path, llm.url, cache_salt="tenant-8") as engine:
        engine.chat_model().invoke("Well?")
    salted, plain, configured = llm.requests
    assert salted["cache_salt"] == "tenant-7"
    assert salted["structured_outputs"] == {"choice": ["yes", "no"]}
    assert "cache_salt" not in plain
    assert configured["cache_salt"] == "tenant-8"
