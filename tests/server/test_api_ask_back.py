"""A question back in every interface: its alternatives as data, and the reply from a history that the client keeps."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from server.store import credentials
from tests.serving import MakeSettings, Running, Serve

QUESTION = "Are tickets refunded?"


@pytest.fixture
def asking(serve: Serve, settings_for: MakeSettings) -> Running:
    """A server that asks back whenever it may, without a model."""
    return serve(settings_for("none", retrieval={"rerank": "never", "profile": {"ask_back": 0.0001, "answerable": 0}}))


def offered_of(details: dict[str, Any]) -> list[str]:
    texts = [alternative["text"] for alternative in details["alternatives"]]
    assert "Travel expenses › Refunds" in texts
    return texts


def test_a_client_of_openais_protocol_replies_from_its_own_history(asking: Running) -> None:
    with openai.OpenAI(base_url=f"{asking.url}/v1", api_key="none", max_retries=0) as client:
        said: list[Any] = [{"role": "user", "content": QUESTION}]
        first = client.chat.completions.create(model="docs", messages=said)
        details = (first.model_extra or {})["anaphora"]
        assert details["status"] == "asked"
        offered = offered_of(details)
        text = first.choices[0].message.content
        assert text is not None
        assert all(f"{n}. {one}" in text for n, one in enumerate(offered, 1))
        chosen = offered.index("Travel expenses › Refunds")
        said += [{"role": "assistant", "content": text}, {"role": "user", "content": f"{chosen + 1}"}]
        second = client.chat.completions.create(model="docs", messages=said, stream=True)
        details = [extra for chunk in second if (extra := (chunk.model_extra or {}).get("anaphora"))][-1]
    assert details["status"] != "asked"
    assert details["alternatives"] == []
    assert (details["rewrite"]["decision"], details["rewrite"]["question"]) == ("reply", str(chosen + 1))
    assert details["rewrite"]["text"] == "Are tickets refunded (Travel expenses › Refunds)?"
    assert details["evidence"][0]["document_id"] == "travel.md"


def test_a_conversation_keeps_what_was_asked_back_and_reads_the_reply(asking: Running) -> None:
    with asking.client() as client:
        place = f"/v1/conversations/{client.post('/v1/conversations', json={'collection': 'docs'}).json()['id']}"

        def ask(question: str) -> dict[str, Any]:
            lines = client.post(f"{place}/turns", json={"question": question}).text.splitlines()
            return dict(json.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: ")))

        assert ask(QUESTION)["status"] == "asked"
        assert ask("the travel refunds")["status"] != "asked"
        first, second = client.get(place).json()["messages"]
        assert (first["status"], offered_of(first["done"])) == ("asked", offered_of(first["done"]))
        assert second["rewrite"]["text"] == "Are tickets refunded (Travel expenses › Refunds)?"
        assert (
            "Searched for: Are tickets refunded (Travel expenses › Refunds)?"
            in client.get(f"{place}?format=markdown").text
        )


def test_an_agent_gets_the_alternatives_and_replies(asking: Running) -> None:
    with_client = pytest.importorskip("plugins.mcp.tests.test_mcp").with_client

    made = asking.call(
        asking.service.core.database.write(
            lambda connection: credentials.create_key(connection, "agent", role="reader", groups=frozenset({"default"}))
        )
    )

    async def agent(client: Any) -> None:
        first = (await client.call_tool("ask", {"question": QUESTION})).structured_content
        assert first["status"] == "asked"
        assert "Travel expenses › Refunds" in first["alternatives"]
        history = [{"role": "user", "text": QUESTION}, {"role": "assistant", "text": first["answer"]}]
        second = (await client.call_tool("ask", {"question": "refunds", "history": history})).structured_content
        assert second["status"] != "asked"
        assert "alternatives" not in second
        assert second["sources"][0]["document_id"] == "travel.md"
        found = (await client.call_tool("search", {"question": "refunds", "history": history})).structured_content
        assert found["searched_for"] == "Are tickets refunded (Travel expenses › Refunds)?"

    with_client(asking, str(made[1]), agent)
