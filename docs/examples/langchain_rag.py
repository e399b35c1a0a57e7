"""Anaphora's search in a LangChain program: as a step of a chain, and as an agent's tool.

    anaphora index path/to/docs --collection docs
    export OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none CHAT_MODEL=openai:my-model
    python docs/examples/langchain_rag.py "How do I appeal a decision?"

CHAT_MODEL is what `langchain.chat_models.init_chat_model` takes. With `--agent` the model decides itself
what to search for, which needs a model that can call tools.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from index import Collection, HybridRetriever, load_encoder

PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "Answer from these passages only, and name their numbers.\n\n{passages}"),
        ("user", "{question}"),
    ]
)


def numbered(documents: list[Document]) -> str:
    return "\n\n".join(
        f"[{number}] {document.metadata['title']} {document.metadata['heading']}\n{document.page_content}"
        for number, document in enumerate(documents, start=1)
    )


def chain(retriever: HybridRetriever, model: BaseChatModel) -> Runnable[str, str]:
    """A question in, an answer out: search, prompt, model."""
    return {"passages": retriever | numbered, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def ask_agent(retriever: HybridRetriever, model: BaseChatModel, question: str) -> str:
    """The model searches as often as it likes and then answers."""
    search = create_retriever_tool(retriever, "search_documentation", "Finds passages of the documentation.")
    agent = create_agent(model, [search], system_prompt="Search the documentation before you answer.")
    answer = agent.invoke({"messages": [{"role": "user", "content": question}]})
    return str(answer["messages"][-1].text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("ANAPHORA_HOME", "~/.local/share/anaphora")))
    parser.add_argument("--collection", default="docs")
    parser.add_argument("--agent", action="store_true")
    args = parser.parse_args()
    home = args.home.expanduser()
    encoder = load_encoder(str(home / "models" / "bge-small-en-v1.5"))
    retriever = HybridRetriever(collection=Collection.open(home / "collections", args.collection, encoder), k=4)
    model = init_chat_model(os.environ["CHAT_MODEL"])
    print(ask_agent(retriever, model, args.question) if args.agent else chain(retriever, model).invoke(args.question))


if __name__ == "__main__":
    main()
