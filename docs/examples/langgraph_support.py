"""A LangGraph program over Anaphora's API: questions are answered from the documents, and the rest goes to a person.

    pip install langgraph anaphora-client
    anaphora serve --docs path/to/docs &
    python docs/examples/langgraph_support.py "How do I appeal a decision?" "And by fax?"

ANAPHORA_URL and ANAPHORA_KEY name another server and its key.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Literal, TypedDict

from anaphora_client import AnaphoraClient
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph


class Support(TypedDict, total=False):
    """What the graph knows of a conversation."""

    question: str
    said: list[Any]
    answer: str
    status: str


def support_graph(client: AnaphoraClient, collection: str = "") -> Any:
    """The graph: `ask`, and where the documents do not answer, `hand_over`. Its threads remember what was said."""

    def ask(state: Support) -> Support:
        said = state.get("said", [])
        found = client.ask(state["question"], collection=collection, history=said)
        told = [{"role": "user", "content": state["question"]}, {"role": "assistant", "content": found.text}]
        return {"answer": found.text, "status": found.status, "said": [*said, *told]}

    def hand_over(state: Support) -> Support:
        return {"answer": f"{state['answer']}\n\nA colleague will answer you.", "status": "handed over"}

    def after(state: Support) -> Literal["hand_over", "__end__"]:
        return "hand_over" if state["status"] == "refused" else END

    graph = StateGraph(Support)
    graph.add_node("ask", ask)
    graph.add_node("hand_over", hand_over)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", after)
    graph.add_edge("hand_over", END)
    return graph.compile(checkpointer=InMemorySaver())


def main() -> None:
    """Ask the questions of the command line, one after the other."""
    url, key = os.environ.get("ANAPHORA_URL", "http://127.0.0.1:7860"), os.environ.get("ANAPHORA_KEY", "")
    with AnaphoraClient(url, key) as client:
        graph, thread = support_graph(client), {"configurable": {"thread_id": "1"}}
        for question in sys.argv[1:]:
            print(graph.invoke({"question": question}, thread)["answer"], end="\n\n")


if __name__ == "__main__":
    main()
