"""Anaphora's search in a LangChain program: as a step of a chain, and as an agent's tool.

    pip install "anaphora-client[langchain]" langchain langchain-openai
    anaphora serve --docs path/to/docs &
    export OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none CHAT_MODEL=openai:my-model
    python docs/examples/langchain_rag.py "How do I appeal a decision?"

CHAT_MODEL is what `langchain.chat_models.init_chat_model` takes. With `--agent` the model decides itself
what to search for, which needs a model that can call tools. ANAPHORA_URL and ANAPHORA_KEY name another server and
its key.
"""

from __future__ import annotations

import argparse
import os

from anaphora_client import AnaphoraClient
from anaphora_client.langchain import AnaphoraRetriever, anaphora_tools
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough

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


def chain(retriever: AnaphoraRetriever, model: BaseChatModel) -> Runnable[str, str]:
    """A question in, an answer out: search, prompt, model."""
    return {"passages": retriever | numbered, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()


def ask_agent(client: AnaphoraClient, model: BaseChatModel, question: str, collection: str = "") -> str:
    """The model searches as often as it likes and then answers."""
    agent = create_agent(
        model, anaphora_tools(client, collection), system_prompt="Search the documentation before you answer."
    )
    answer = agent.invoke({"messages": [{"role": "user", "content": question}]})
    return str(answer["messages"][-1].text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--collection", default="")
    parser.add_argument("--agent", action="store_true")
    args = parser.parse_args()
    url, key = os.environ.get("ANAPHORA_URL", "http://127.0.0.1:7860"), os.environ.get("ANAPHORA_KEY", "")
    model = init_chat_model(os.environ["CHAT_MODEL"])
    with AnaphoraClient(url, key) as client:
        if args.agent:
            print(ask_agent(client, model, args.question, args.collection))
        else:
            retriever = AnaphoraRetriever(client=client, collection=args.collection, k=4)
            print(chain(retriever, model).invoke(args.question))


if __name__ == "__main__":
    main()
