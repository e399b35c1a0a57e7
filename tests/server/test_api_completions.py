"""`/v1/chat/completions` with OpenAI's own client, over a real port and in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from server.store import schema
from tests.openai_server import FakeOpenAIServer
from tests.serving import as_new


@pytest.fixture
def running(shared: Any) -> Any:
    return shared


@pytest.fixture
def llm(shared_llm: FakeOpenAIServer) -> Iterator[FakeOpenAIServer]:
    yield shared_llm
    as_new(shared_llm)


def client_of(running: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)


def ask(question: str, **more: Any) -> dict[str, Any]:
    return {"model": "docs", "messages": [{"role": "user", "content": question}], **more}


def test_an_answer_carries_its_citations_and_what_was_searched_for(running: Any) -> None:
    with client_of(running) as client:
        completion = client.chat.completions.create(**ask("How long is parental leave?"))
    assert completion.choices[0].message.content == "Parental leave lasts ten weeks. [1]"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.choices[0].message.refusal is None
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (50, 57)
    details = (completion.model_extra or {})["anaphora"]
    assert details["status"] == "answered"
    (citation,) = details["citations"]
    assert citation["document_id"] == "leave.md"
    assert citation["quote"] == "Parental leave lasts ten weeks."
    assert details["rewrite"]["question"] == "How long is parental leave?"
    assert details["evidence"][0]["n"] == 1
    assert details["support"][0]["supported"]


def test_a_stream_ends_with_usage_extras_and_done(running: Any) -> None:
    request = ask("How long is parental leave?", stream=True, stream_options={"include_usage": True})
    with client_of(running) as client, client.chat.completions.create(**request) as stream:
        chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Parental leave lasts ten weeks. [1]"
    last = chunks[-2]
    assert last.choices[0].finish_reason == "stop"
    assert (last.model_extra or {})["anaphora"]["citations"][0]["document_id"] == "leave.md"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 7
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_history_of_the_messages_is_searched_with(running: Any, llm: Any) -> None:
    messages = [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": [{"type": "text", "text": "How do I apply for parental leave?"}]},
        {"role": "assistant", "content": "With form PL-7. [1]"},
        {"role": "user", "content": "And by fax?"},
    ]
    with client_of(running) as client:
        completion = client.chat.completions.create(model="docs", messages=messages)  # type: ignore[arg-type]
    rewrite = (completion.model_extra or {})["anaphora"]["rewrite"]
    assert any("parental leave" in variant["text"] for variant in rewrite["variants"])
    prompt = json.dumps(llm.requests[-1]["messages"])
    assert "And by fax?" in prompt
    assert "pirate" not in prompt


def test_a_text_that_a_stream_cannot_take_back_is_no_history(running: Any, llm: Any) -> None:
    question, llm.max_model_len = "How long does parental leave last?", 4096
    llm.pieces = ["The mayor of Springfield studied medieval falconry [1]."]
    with client_of(running) as client:
        with client.chat.completions.create(**ask(question, stream=True)) as stream:
            shown = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": shown}]
        messages = [*said, {"role": "user", "content": "And by fax?"}]
        completion = client.chat.completions.create(model="docs", messages=messages)  # type: ignore[arg-type]
    assert "falconry" in shown
    assert "falconry" not in json.dumps(llm.requests[-1]["messages"])
    variants = (completion.model_extra or {})["anaphora"]["rewrite"]["variants"]
    assert not any("falconry" in variant["text"] for variant in variants)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_shorter_answer_may_be_asked_for_but_not_a_longer_one(running: Any, llm: Any, name: str) -> None:
    with client_of(running) as client:
        client.chat.completions.create(**ask("How long is parental leave?", **{name: 5}))
        client.chat.completions.create(**ask("How long is parental leave?", **{name: 100_000}))
    limits = [request.get("max_completion_tokens") or request.get("max_tokens") for request in llm.requests[-2:]]
    assert limits == [5, running.service.settings.llm.longest_answer("full")]


def test_a_refusal_is_marked_and_the_token_never_shown(running: Any, llm: Any) -> None:
    llm.pieces = ["<cannot", "_ans", "wer>"]
    with client_of(running) as client:
        completion = client.chat.completions.create(**ask("What is the capital of France?"))
        with client.chat.completions.create(**ask("What is the capital of France?", stream=True)) as stream:
            chunks = list(stream)
    message = completion.choices[0].message
    assert message.refusal == message.content
    assert "cannot_answer" not in completion.model_dump_json()
    assert not any("cannot_answer" in chunk.model_dump_json() for chunk in chunks)
    assert chunks[-1].choices[0].delta.refusal == message.content


@pytest.mark.parametrize("model", ["nothing", "../etc", "docs/../docs", "x" * 500])
def test_an_unknown_model_is_a_404_in_openais_shape(running: Any, model: str) -> None:
    with client_of(running) as client, pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(**{**ask("Hello?"), "model": model})
    assert raised.value.code == "collection_not_found"
    assert model[:20] in raised.value.message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "docs"}, "messages"),
        ({"model": "docs", "messages": []}, "messages"),
        ({"model": "docs", "messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"model": "docs", "messages": [{"role": "user", "content": "x" * 5000}]}, "question"),
        ({"model": "docs", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
        ({"model": "docs", "messages": [{"role": "user", "content": "x"}], "n": 2}, "n"),
    ],
)
def test_a_bad_request_names_the_field(running: Any, body: dict[str, Any], param: str) -> None:
    with running.client() as client:
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert str(error["param"]).startswith(param)
    assert error["message"]


def test_what_cannot_be_used_is_named_as_a_person_would(running: Any) -> None:
    picture = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "http://x"}}]
    with running.client() as client:
        content = {"model": "docs", "messages": [{"role": "user", "content": picture}]}
        assert "'image_url'" in client.post("/v1/chat/completions", json=content).json()["error"]["message"]
        for sent in ({"content": b"{bad", "headers": {"Content-Type": "application/json"}}, {"content": b"{}"}):
            answer = client.post("/v1/chat/completions", **sent)
            assert answer.status_code == 400
            assert "Content-Type: application/json" in answer.json()["error"]["message"]
        # Where the home lies is nobody's business.
        answer = client.delete("/v1/collections/nothing")
        said = "There is no collection 'nothing'. Index documents into it first."
        assert (answer.status_code, answer.json()["error"]["message"]) == (404, said)


def test_half_characters_and_nuls_do_no_harm(running: Any) -> None:
    with running.client() as client:
        content = '{"model": "docs", "messages": [{"role": "user", "content": "leave \\ud800 \\u0000?"}]}'
        answer = client.post("/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200


def test_an_error_after_the_stream_has_begun_is_an_event(running: Any, llm: Any) -> None:
    llm.die_after = 2
    request = ask("How long is parental leave?", stream=True)
    with client_of(running) as client, client.chat.completions.create(**request) as stream:
        seen = next(stream), next(stream)
        with pytest.raises(openai.APIError, match="language model"):
            list(stream)
    assert seen[1].choices[0].delta.content


def test_a_model_that_is_down_is_a_503(running: Any, llm: Any) -> None:
    llm.die_after = 0
    with client_of(running) as client, pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(**ask("How long is parental leave?"))
    assert raised.value.code == "llm_unreachable"


def test_where_limits_what_is_found(running: Any) -> None:
    with running.client() as client:
        request = ask("How long is parental leave?", anaphora={"where": {"format": "pdf"}})
        answer = client.post("/v1/chat/completions", json=request).json()
    assert answer["anaphora"]["status"] == "refused"
    assert answer["anaphora"]["evidence"] == []


def test_models_are_collections(running: Any) -> None:
    with client_of(running) as client:
        assert [model.id for model in client.models.list()] == ["docs"]
        assert client.models.retrieve("docs").owned_by == "anaphora"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("nothing")


def test_a_vllm_remembers_prompts_of_each_group_apart(serve: Any, settings_for: Any, llm: Any) -> None:
    llm.owned_by = "vllm"
    running = serve(settings_for(llm.url))
    messages = [{"role": "user", "content": "How long is parental leave?"}]

    def salt(group: str) -> str:
        database = running.service.core.database
        if group != "default":
            database.write_blocking(lambda connection: schema.grant(connection, "docs", group))
        with running.client() as client:
            assert client.post("/v1/chat/completions", json={"model": "docs", "messages": messages}).status_code == 200
        return str(llm.requests[-1]["cache_salt"])

    first, again, other = salt("default"), salt("default"), salt("a-team")
    assert first == again != other
    assert "a-team" not in other
