"""The client of the HTTP API against a real server, and the description of the API in the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from anaphora_client import AnaphoraClient, ApiError, ClientAnswer, mcp_settings
from anaphora_client.langchain import AnaphoraRetriever, anaphora_tools

from cli.config import openapi_text
from tests.openai_server import FakeOpenAIServer
from tests.serving import Running

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_program_searches_asks_and_manages_documents(running: Running, llm: FakeOpenAIServer, tmp_path: Path) -> None:
    with AnaphoraClient(running.url) as client:
        (docs,) = client.collections()
        assert (docs.name, docs.documents) == ("docs", 3)
        found = client.search("How long is parental leave?", k=2)
        assert len(found) == 2
        document = client.document("docs", found[0].document_id)
        assert document[found[0].start : found[0].end] == found[0].text
        assert found[0].document_id in [one.id for one in client.documents("docs")]

        answer = client.ask("How long is parental leave?", collection="docs")
        assert answer.status == "answered"
        assert answer.sources[0].text in document
        usual, heard = llm.pieces, threading.Event()

        def slowly(_: object) -> Iterator[str]:
            yield "Parental leave "
            heard.wait(90)
            yield "lasts ten weeks. [1]"

        llm.pieces = slowly
        stream = client.stream("How long is parental leave?")
        first = next(stream)
        heard.set()
        *pieces, last = stream
        assert isinstance(last, ClientAnswer)
        assert "".join(map(str, (first, *pieces))) == last.text == answer.text
        llm.pieces = usual
        client.ask(
            "And by fax?", history=[{"role": "user", "content": "How long?"}, {"role": "assistant", "content": "Ten"}]
        )

        file = tmp_path / "cups & saucers.md"
        file.write_text("# Cups\n\nA cup holds tea.\n", "utf-8")
        job = client.upload("docs", file)
        running.finished(job)
        assert client.job(job) == "done"
        assert client.collections()[0].documents == 4

        with pytest.raises(ApiError) as refused:
            client.search("x", collection="nowhere")
        assert (refused.value.status, refused.value.code) == (404, "collection_not_found")
        llm.status = 500
        with pytest.raises(ApiError) as failed:
            list(client.stream("How long is parental leave?"))
        assert failed.value.code == "llm_failed"


def test_the_metadata_of_passages_narrows_search_and_answer(running: Running, llm: FakeOpenAIServer) -> None:
    with AnaphoraClient(running.url) as client:
        assert client.search("How long is parental leave?", where={"source": "travel.md"}) != []
        assert client.search("How long is parental leave?", where={"product": "none"}) == []
        assert client.ask("How long is parental leave?", where={"product": "none"}).status == "refused"


def test_a_langchain_retriever_searches_follow_ups_with_their_history(running: Running) -> None:
    with AnaphoraClient(running.url) as client:
        history = [{"role": "user", "content": "How do I apply for parental leave?"}]
        first, *_ = AnaphoraRetriever(client=client, collection="docs", history=history, k=3).invoke("And by fax?")
        assert "sent by fax" in first.page_content
        assert first.metadata["heading"] == "Applying"
        whole = client.document("docs", first.metadata["document_id"])
        assert whole[first.metadata["start"] : first.metadata["end"]] == first.page_content
        assert len(AnaphoraRetriever(client=client, k=2).invoke("form")) == 2


def test_an_agent_searches_and_asks_with_the_tools(running: Running, llm: FakeOpenAIServer) -> None:
    with AnaphoraClient(running.url) as client:
        search, ask = anaphora_tools(client, "docs", k=1)
        assert search.invoke({"query": "lost badge"}).startswith("[1] Badges > Lost badges\nA lost badge")
        assert ask.invoke({"question": "How long is parental leave?"}).startswith("answered: Parental leave lasts")


def test_mcp_programs_connect_or_start_a_server() -> None:
    connected = mcp_settings("http://127.0.0.1:7860/", key="k")["mcpServers"]["anaphora"]
    assert (connected["url"], connected["headers"]) == ("http://127.0.0.1:7860/mcp", {"Authorization": "Bearer k"})
    started = mcp_settings(key="k", collection="docs")["mcpServers"]["anaphora"]
    assert started == {"command": "anaphora", "args": ["mcp", "--collection", "docs"], "env": {"ANAPHORA_KEY": "k"}}


@pytest.mark.extended
def test_the_wheel_of_the_client_needs_httpx_alone(tmp_path: Path) -> None:
    """Its own modules are read from the wheel; of other libraries only httpx and its parts may be imported."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    source = tmp_path / "source"
    shutil.copytree(REPOSITORY / "client", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    subprocess.run([*build, str(source)], check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("anaphora_client-*.whl")
    assert "anaphora_client/py.typed" in zipfile.ZipFile(wheel).namelist()
    program = (
        f"import sys; sys.path.insert(0, {str(wheel)!r}); import httpx; earlier = set(sys.modules); "
        "import anaphora_client; names = {name.partition('.')[0] for name in set(sys.modules) - earlier}; "
        "print(*names - set(sys.stdlib_module_names))"
    )
    run = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=180)
    assert run.stdout.split() == ["anaphora_client"]


def test_the_description_of_the_api_in_the_repository_is_current() -> None:
    assert (REPOSITORY / "docs" / "operate" / "openapi.json").read_text("utf-8") == openapi_text(), (
        "run `anaphora config openapi`"
    )
