"""The `openai` engine, against llama.cpp's real OpenAI-compatible server and one that only listens."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import APIConnectionError
from pydantic import SecretStr

from server import installation
from server.engines import EngineUnreachable, RemoteEngine, open_engine
from server.engines.remote import demand_listed
from server.installation import check_llm, check_nearby, nearby_servers
from server.registry import resolve
from server.settings import SERVERS, LLMSettings, Settings
from tests.openai_server import FakeOpenAIServer
from tests.several import Balancer

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
    with remote(tmp_path, llm.url, model_name="mine") as engine:
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
    async def streamed(engine: RemoteEngine) -> None:
        async for _ in engine.chat_model().bind(extra_body=extra).astream("Well?"):
            pass
        await engine.aclose()

    extra = {"cache_salt": "tenant-7", "structured_outputs": {"choice": ["yes", "no"]}}
    with remote(tmp_path, llm.url) as engine:
        engine.chat_model().bind(extra_body=extra).invoke("Well?")
        engine.chat_model().invoke("Well?")
        asyncio.run(streamed(engine))
    for request in llm.requests[0], llm.requests[2]:
        assert {name: request.get(name) for name in extra} == extra
    assert not extra.keys() & llm.requests[1].keys()
    # The client's own word for them is none of the protocol's: a vLLM warns of it, and stricter servers refuse it.
    assert not any("extra_body" in request for request in llm.requests)


def test_of_several_replicas_another_answers_where_one_dies_before_its_first_token(tmp_path: Path) -> None:
    async def ask(engine: RemoteEngine) -> str:
        try:
            return "".join([piece.text async for piece in engine.chat_model().astream("How long?")])
        finally:
            await engine.aclose()

    with FakeOpenAIServer() as sound, FakeOpenAIServer(die_after=0) as dying:
        balancer = Balancer([one.url.removesuffix("/v1") for one in (dying, sound)])
        try:
            engine = RemoteEngine(Settings(home=tmp_path, llm={"model": f"{balancer.url}/v1"}))
            for _ in range(3):
                engine.start()
                assert asyncio.run(ask(engine)) == "Parental leave lasts ten weeks. [1]"
                engine.stop()
            assert dying.requests, "the dying one was never asked"
            # In the middle of an answer nobody can go on with it: the error is told.
            sound.die_after = dying.die_after = 2
            engine.start()
            with pytest.raises(APIConnectionError):
                asyncio.run(ask(engine))
            assert len(sound.requests) + len(dying.requests) <= 8
            engine.stop()
            # One that is not there is not asked.
            balancer.replace(dying.url.removesuffix("/v1"), "http://127.0.0.1:9")
            sound.die_after = None
            for _ in range(2):
                engine.start()
                assert engine.healthy()
                assert asyncio.run(ask(engine)) == "Parental leave lasts ten weeks. [1]"
                engine.stop()
        finally:
            balancer.close()


NOBODY = "http://127.0.0.1:9/v1"


def test_ollama_is_asked_by_the_names_it_lists(
    llm: FakeOpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVERS, "ollama", llm.url)
    engine = remote(tmp_path, "ollama:fake")
    with engine:
        assert engine.name.startswith("openai:fake@")
    with (
        pytest.raises(EngineUnreachable, match=r"no model 'llama3'; it has: fake\. `ollama pull llama3`"),
        remote(tmp_path, "ollama:llama3"),
    ):
        pass
    tagged = LLMSettings(model="ollama:llama3.2")
    assert demand_listed(tagged, ["qwen3:8b", "llama3.2:latest"]) == "llama3.2:latest"


@pytest.mark.parametrize(("model", "started"), [("ollama:llama3", "ollama serve"), ("vllm", "vllm serve MODEL")])
def test_where_no_such_server_answers_it_says_how_to_start_it(
    model: str, started: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERVERS, model.partition(":")[0], NOBODY)
    with (
        pytest.raises(EngineUnreachable, match=f"{NOBODY} does not answer .* Start it with `{started}`"),
        remote(tmp_path, model),
    ):
        pass


def test_servers_of_this_machine_are_seen_with_how_to_use_them(
    llm: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def listen(ollama: str = NOBODY, vllm: str = NOBODY) -> None:
        monkeypatch.setitem(SERVERS, "ollama", ollama)
        monkeypatch.setitem(SERVERS, "vllm", vllm)

    monkeypatch.setattr(installation, "OTHERS", ())
    listen(ollama=llm.url)
    (seen,) = nearby_servers()
    assert str(seen) == f"A model server runs at {llm.url}; use it with MODEL=ollama:fake."
    assert [finding.message for finding in check_nearby(Settings(home=tmp_path))] == [str(seen)]
    (answers,) = check_llm(Settings(home=tmp_path, llm=LLMSettings(model="ollama:llama3")))
    listen(vllm=llm.url)
    (other,) = nearby_servers()
    assert other.models == (llm.url,)
    llm.owned_by = "vllm"
    (vllm,) = nearby_servers()
    assert vllm.models == ("vllm",)
    llm.owned_by = "anaphora"
    assert not list(nearby_servers())
    assert (answers.level, "it has: fake" in answers.message) == ("fail", True)
