"""The client of the HTTP API against a real server, and the description of the API in the repository."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from cli.config import openapi_text
from server import client as module
from server.client import AnaphoraClient, ApiError, ClientAnswer
from testing.openai_server import FakeOpenAIServer
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
        llm.pace = 0.1  # what arrives together becomes one piece
        *pieces, last = client.stream("How long is parental leave?")
        assert isinstance(last, ClientAnswer)
        assert "".join(map(str, pieces)) == last.text == answer.text
        assert len(pieces) > 1
        llm.pace = 0.0
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


def test_the_client_needs_httpx_alone() -> None:
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    roots = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in getattr(node, "names", [])]
        )
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert roots - set(sys.stdlib_module_names) == {"httpx"}


def test_the_description_of_the_api_in_the_repository_is_current() -> None:
    assert (REPOSITORY / "docs" / "operate" / "openapi.json").read_text("utf-8") == openapi_text(), (
        "run `anaphora config openapi`"
    )
