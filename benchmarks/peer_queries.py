"""The text that another project searches for, after a conversation: its own code, with a model behind an OpenAI API.

    PYTHON benchmarks/peer_queries.py langchain|llamaindex|haystack|openwebui URL < turns > queries

A line of `turns` is `{"id", "history": [[role, text], …], "question"}`, one of `queries` is `{"id", "queries",
"seconds"}`. PYTHON is of an environment that holds the project (`peers.txt`); nothing of Anaphora is imported here. The
retriever that each project is given keeps the text that it is asked for and ends the turn there: no answer is written.
Temperature 0 and at most 200 tokens everywhere. `bench_peers.py` runs this.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from typing import TypeAlias

History: TypeAlias = Sequence[tuple[str, str]]
Step: TypeAlias = Callable[[History, str], list[str]]
"""The texts searched for, given the turns before and the question."""

MODEL, KEY, TOKENS = "local", "none", 200


class TurnEnded(Exception):
    """The retriever was asked."""


def langchain(url: str) -> Step:
    """`create_history_aware_retriever`, instructed as its documentation proposes, in our words."""
    from langchain_classic.chains import create_history_aware_retriever
    from langchain_core.documents import Document
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
    from langchain_core.runnables import RunnableLambda
    from langchain_openai import ChatOpenAI

    system = (
        "The last message may lean on the messages before it. Write it as a question that somebody understands who has "
        "not read these. Write the question alone, without an answer; where it needs no change, repeat it."
    )
    prompt = ChatPromptTemplate.from_messages(
        [("system", system), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    model = ChatOpenAI(model=MODEL, base_url=url, api_key=KEY, temperature=0, max_completion_tokens=TOKENS)
    retriever = RunnableLambda(lambda text: [Document(text)])
    chain = create_history_aware_retriever(model, retriever, prompt)

    def step(history: History, question: str) -> list[str]:
        return [found.page_content for found in chain.invoke({"input": question, "chat_history": list(history)})]

    return step


def llamaindex(url: str) -> Step:
    """`CondensePlusContextChatEngine` with its own prompt."""
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.chat_engine import CondensePlusContextChatEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.llms.openai_like import OpenAILike

    queries: list[str] = []

    class Kept(BaseRetriever):
        def _retrieve(self, query_bundle):
            queries[:] = [query_bundle.query_str]
            raise TurnEnded

    model = OpenAILike(
        model=MODEL, api_base=url, api_key=KEY, temperature=0, max_tokens=TOKENS, is_chat_model=True,
        context_window=4096, timeout=600,
    )  # fmt: skip

    def step(history: History, question: str) -> list[str]:
        engine = CondensePlusContextChatEngine.from_defaults(retriever=Kept(), llm=model)
        with suppress(TurnEnded):
            engine.chat(question, [ChatMessage(role=role, content=text) for role, text in history])
        return list(queries)

    return step


def haystack(url: str) -> Step:
    """The steps of the cookbook's "Conversational RAG using Memory" that rephrase, instructed alike in our words."""
    from haystack import Pipeline, component
    from haystack.components.builders import ChatPromptBuilder
    from haystack.components.converters import OutputAdapter
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    template = """
        Make a search query of the user's question. Keep what it asks for and its terms.
        Add from the conversation only what the question needs, and nothing of your own.
        Repeat the question if it needs no change, or if there is no conversation yet.

        Conversation:
        {% for memory in memories %}
            {{ memory.text }}
        {% endfor %}

        Question: {{query}}
        Query:
"""

    @component
    class Kept:
        @component.output_types(documents=list[str])
        def run(self, query: str) -> dict[str, list[str]]:
            return {"documents": [query]}

    model = OpenAIChatGenerator(
        api_key=Secret.from_token(KEY), model=MODEL, api_base_url=url, timeout=600,
        generation_kwargs={"temperature": 0, "max_tokens": TOKENS},
    )  # fmt: skip
    pipeline = Pipeline()
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables="*"))
    pipeline.add_component("rephrase", model)
    pipeline.add_component("text", OutputAdapter("{{ replies[0].text }}", str))
    pipeline.add_component("retriever", Kept())
    pipeline.connect("prompt.prompt", "rephrase.messages")
    pipeline.connect("rephrase.replies", "text.replies")
    pipeline.connect("text", "retriever.query")
    message = {"user": ChatMessage.from_user, "assistant": ChatMessage.from_assistant}

    def step(history: History, question: str) -> list[str]:
        memories = [message[role](text) for role, text in history]
        result = pipeline.run({"prompt": {"memories": memories, "query": question}})
        return list(result["retriever"]["documents"])

    return step


def openwebui(url: str) -> Step:
    """Open WebUI's prompt for queries of a knowledge base; the reply is read as its middleware reads it."""
    os.environ.setdefault("DATA_DIR", tempfile.mkdtemp())
    os.environ.setdefault("WEBUI_SECRET_KEY", KEY)
    os.environ |= {"ENABLE_DB_MIGRATIONS": "False", "FROM_INIT_PY": "True", "VECTOR_DB": "qdrant"}
    import httpx
    from open_webui.config import DEFAULT_QUERY_GENERATION_PROMPT_TEMPLATE
    from open_webui.utils.task import query_generation_template

    def step(history: History, question: str) -> list[str]:
        messages = [{"role": role, "content": text} for role, text in (*history, ("user", question))]
        content = asyncio.run(query_generation_template(DEFAULT_QUERY_GENERATION_PROMPT_TEMPLATE, messages, None))
        body = {"messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": TOKENS}
        reply = httpx.post(f"{url}/chat/completions", json=body, timeout=600).raise_for_status().json()
        text = reply["choices"][0]["message"]["content"]
        try:
            queries = json.loads(text[text.rindex("{") : text.rindex("}") + 1]).get("queries", [])
        except ValueError:
            queries = [text]
        return [str(query) for query in queries] or [question]

    return step


PROJECTS = {"langchain": langchain, "llamaindex": llamaindex, "haystack": haystack, "openwebui": openwebui}


def main() -> None:
    out = sys.stdout
    for row in _answers(*sys.argv[1:3]):
        print(json.dumps(row), file=out, flush=True)


def _answers(project: str, url: str) -> Iterator[dict[str, object]]:
    # What a library prints must not stand among the answers.
    with redirect_stdout(sys.stderr):
        step = PROJECTS[project](url)
        for line in sys.stdin:
            turn = json.loads(line)
            started = time.perf_counter()
            queries = step([(role, text) for role, text in turn["history"]], turn["question"])
            yield {"id": turn["id"], "queries": queries, "seconds": round(time.perf_counter() - started, 3)}


if __name__ == "__main__":
    main()
