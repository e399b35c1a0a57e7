"""The recipes of docs/operate/agents.md: requests of other chat pages, and the example programs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from anaphora_client import AnaphoraClient
from anaphora_client.langchain import AnaphoraRetriever
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tests.openai_server import FakeOpenAIServer
from tests.serving import Running

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
OPEN_WEBUI = {
    "stream": True,
    "model": "docs",
    "messages": [
        {"role": "user", "content": "How do I apply for parental leave?"},
        {"role": "assistant", "content": "Apply with form PL-7. [1]"},
        {"role": "user", "content": [{"type": "text", "text": "And by fax?"}]},
    ],
    "stream_options": {"include_usage": True},
    "temperature": 0.7,
    "max_tokens": 300,
    "chat_id": "0d9e8f6a-7f0c-4f5e-8f57-2f2f1c8a2b11",
    "session_id": "Vq1e9xkQm3l6Yk0cAAAB",
    "id": "5f2c2b1e-5a4e-4c2a-9b56-0c2d6b9d1d7e",
    "features": {"image_generation": False, "code_interpreter": False, "web_search": False},
    "background_tasks": {"title_generation": False, "tags_generation": False},
    "metadata": {"user_id": "u-1", "variables": {"{{USER_NAME}}": "Ada"}},
    "tool_ids": [],
    "files": None,
}
OPEN_WEBUI_HEADERS = {
    "X-OpenWebUI-User-Name": "Ada",
    "X-OpenWebUI-User-Role": "user",
    "HTTP-Referer": "https://x.example",
}
LIBRECHAT = {
    "model": "docs",
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "user": "65f0c1e2a9b3",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": "You are helpful.", "name": "instructions"},
        {"role": "user", "content": "How do I apply for parental leave?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Apply with form PL-7. [1]"}]},
        {"role": "user", "content": "And by fax?"},
    ],
}


@pytest.mark.parametrize("request_body", [OPEN_WEBUI, LIBRECHAT], ids=["open-webui", "librechat"])
def test_other_chat_pages_list_collections_and_stream_answers(
    running: Running, llm: FakeOpenAIServer, request_body: dict[str, Any]
) -> None:
    with running.client(headers=OPEN_WEBUI_HEADERS) as client:
        listed = client.get("/v1/models").json()
        assert listed["object"] == "list"
        assert [(one["id"], one["object"]) for one in listed["data"]] == [("docs", "model")]
        answer = client.post("/v1/chat/completions", json=request_body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    # What such pages read of a chunk.
    said = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert said.startswith("Parental leave lasts ten weeks. [")
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] == 57
    assert "form PL-7" in str(llm.requests[-1]["messages"]), "the follow-up is searched with its history"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


def test_the_graph_answers_remembers_and_hands_over(running: Running, llm: FakeOpenAIServer) -> None:
    thread = {"configurable": {"thread_id": "1"}}
    with AnaphoraClient(running.url) as client:
        graph = example("langgraph_support").support_graph(client, "docs")
        assert graph.invoke({"question": "How long is parental leave?"}, thread)["status"] == "answered"
        llm.pieces = ("<cannot_answer>",)
        handed = graph.invoke({"question": "Who is the mayor?"}, thread)
        assert handed["status"] == "handed over"
        assert handed["answer"].endswith("A colleague will answer you.")
        assert len(handed["said"]) == 4


class Searching(BaseChatModel):
    """Calls the search tool once and then answers with what it was given."""

    @property
    def _llm_type(self) -> str:
        return "searching"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Searching:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            message = AIMessage(f"The documentation says: {last.text}")
        else:
            call = {"name": "search_documentation", "args": {"query": last.text}, "id": "1"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_the_chain_and_the_agent_answer_from_what_was_found(running: Running) -> None:
    seen: list[str] = []

    class Recording(GenericFakeChatModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            seen.extend(message.text for message in messages)
            return super()._generate(messages, *args, **options)

    program = example("langchain_rag")
    with AnaphoraClient(running.url) as client:
        model = Recording(messages=iter([AIMessage("By fax [1].")]))
        chain = program.chain(AnaphoraRetriever(client=client, k=2), model)
        assert chain.invoke("May form PL-7 be sent by fax?") == "By fax [1]."
        assert "sent by fax to the number 555-0199" in seen[0]
        assert seen[1] == "May form PL-7 be sent by fax?"
        answer = program.ask_agent(client, Searching(), "form PL-7 by fax", "docs")
        assert answer.startswith("The documentation says: [1] Parental leave")
