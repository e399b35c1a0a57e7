"""Threads, wikis, forums and API descriptions as sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from plugins.sources.api import thread_markdown
from plugins.sources.mirror import SourceMirror
from plugins.sources.openapi import _parsed, markdown
from plugins.sources.source import Source, SourceError
from plugins.sources.tests import api_servers
from plugins.sources.tests.api_servers import TOKEN, FakeApi
from plugins.sources.tests.connector import ConnectorContract, listed, opened, synced
from tests.http_server import FakeHandler
from tests.web_site import FakeSite, Page, answer, serving

SERVERS = ("FakeGitHub", "FakeDiscussions", "FakeGitLab", "FakeDiscourse", "FakeConfluence", "FakeCloud")


class TestApis(ConnectorContract):
    """The contract over each of the APIs."""

    @pytest.fixture(params=SERVERS)
    def place(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
        monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", TOKEN)
        with getattr(api_servers, request.param)() as server:
            yield server

    def texts(self, mirror: SourceMirror) -> dict[str, str]:
        """As the contract has it: files of HTML bear the names of documents, too."""
        documents = {key: document for key, document in mirror.state.documents.items() if document.path}
        return {key.rpartition("/")[2]: (mirror.files / row.path).read_text("utf-8") for key, row in documents.items()}

    def test_answers_and_addresses_come_along_and_what_answers_nothing_does_not(
        self, place: FakeApi, mirror: SourceMirror
    ) -> None:
        self.run(place, mirror)
        assert set(self.texts(mirror)) == {"one.md", "two.md"}
        text, document = self.texts(mirror)["one.md"], next(iter(mirror.state.documents.values()))
        assert "About one.md" in text
        assert document.url.startswith(("https://", place.url))
        if place.kind != "confluence":
            question, answer = (text.index(part) for part in ("Answer to: How is one.md", "The first document."))
            assert question < answer, "what was asked heads the answer, and is no text that could be quoted"
            assert text.count("How is") == text.count("Answer to: How is") == 1 + ("This helped." in text)
        assert "Me too!" not in text
        assert ("This helped." in text) is (type(place).__name__ == "FakeGitHub")

    def test_a_wrong_token_and_an_unexpected_answer_delete_nothing(
        self, place: FakeApi, mirror: SourceMirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.run(place, mirror)
        monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", "wrong")
        assert "HTTP 401" in self.run(place, mirror).problem
        monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", TOKEN)
        monkeypatch.setattr(type(place), "reply", lambda *_: ["?"])
        assert "answers otherwise" in self.run(place, mirror).problem
        assert set(self.texts(mirror)) == {"one.md", "two.md"}


def test_headings_of_an_answer_stand_below_its_question() -> None:
    text = thread_markdown("T", "Why\nso?" + " very" * 99, ["# Steps\n\n```sh\n# no heading\n```\n\nx"])
    assert text.startswith("# T\n\n## Answer to: Why so? very")
    assert "…\n\n### Steps\n\n```sh\n# no heading\n```" in text


def test_a_token_is_never_sent_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", TOKEN)

    def moved(request: FakeHandler) -> None:
        answer(request, 302, b"", {"Location": elsewhere.url})

    with FakeSite() as elsewhere, serving(moved) as port:
        source = Source(name="place", collection="docs", kind="gitlab", location=f"http://127.0.0.1:{port}/us/docs")
        with pytest.raises(SourceError, match="HTTP 302"):
            listed(source, tmp_path)
        assert elsewhere.asked == []


@pytest.mark.parametrize("server", SERVERS)
def test_lists_without_end_and_values_of_another_kind_end_with_a_reason(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", TOKEN)

    class Odd(getattr(api_servers, server)):  # type: ignore[misc]
        """Names, versions and addresses are no texts; each page says that there is another."""

        deep = False

        def _answer(self, request: FakeHandler) -> None:
            if self.deep:
                answer(request, 200, b"[" * 200_000)
            else:
                super()._answer(request)

        def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
            value = super().reply(path, query, body)
            odd: Any = {"title": {"a": "# b"}, "updated_at": 7, "html_url": ["javascript:"], "web_url": None, "url": 3}
            endless = {"hasNextPage": True, "endCursor": "0", "more_topics_url": "/more"}

            def changed(part: Any) -> Any:
                if isinstance(part, list):
                    return [changed(item) for item in part]
                if not isinstance(part, dict):
                    return part
                first = {"next": part.get("next", "").partition("start=")[0] + "start=0"}
                values = {**odd, **endless, **first}
                return {name: values[name] if name in values else changed(item) for name, item in part.items()}

            return changed(value)

    with Odd() as place:
        place.put("one.md", "# One")
        place.put("two.md", "# Two")
        source = place.source.model_copy(update={"pages": 3})
        mirror = SourceMirror(tmp_path / "sources", "place")
        mirror.write(source)
        synced(mirror)
        documents = mirror.state.documents.values()
        assert documents
        assert all(document.url.startswith("http") or not document.url for document in documents)
        with opened(source, tmp_path) as reading:
            monkeypatch.setattr("plugins.sources.api.LIST_BYTES", 10)
            with pytest.raises(SourceError, match="lists more than"):
                list(reading.items({}, lambda _: None))
        monkeypatch.setattr("plugins.sources.api.LIST_BYTES", 1 << 20)
        place.deep = True
        with pytest.raises(SourceError, match="no JSON"):
            listed(source, tmp_path)


def test_a_wiki_that_goes_on_elsewhere_gets_no_token_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAPHORA_SOURCE_PLACE_TOKEN", TOKEN)
    with FakeSite() as elsewhere, api_servers.FakeConfluence() as wiki:
        reply = wiki.reply
        wiki.reply = lambda *request: {**reply(*request), "_links": {"next": f"{elsewhere.url}/x"}}  # type: ignore[method-assign]
        wiki.put("one.md", "# One")
        with pytest.raises(SourceError, match="the token is not sent there"):
            listed(wiki.source, tmp_path)
        assert elsewhere.asked == []


API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Shop `x`\n# y", "description": "Sells things."},
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {
                "summary": "Read an order",
                "description": "Returns one order.",
                "responses": {"200": {"description": "The order.", "content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/Order"}}}}},
            },
            "delete": {"operationId": "cancel", "deprecated": True, "responses": {"204": {"description": "Gone."}}},
        }
    },
    "components": {
        "parameters": {"id": {"name": "id", "in": "path", "required": True, "description": "The number.",
                              "schema": {"type": "integer"}}},
        "schemas": {"Order": {"type": "object", "required": ["state"], "properties": {
            "state": {"type": "string", "enum": ["open", "paid"], "description": "How it stands."},
            "parent": {"$ref": "#/components/schemas/Order"},
            "away": {"$ref": "https://evil.example/schema.json"}}}},
    },
}  # fmt: skip


def test_an_operation_of_an_api_is_a_section(tmp_path: Path) -> None:
    with FakeSite() as site:
        site.pages["/openapi.json"] = Page(json.dumps(API).encode(), "application/json")
        source = Source(name="api", collection="docs", kind="openapi", location=f"{site.url}/openapi.json")
        mirror = SourceMirror(tmp_path / "sources", "api")
        mirror.write(source)
        assert [synced(mirror).counts for _ in range(2)] == [{"new": 1}, {"unchanged": 1}]
        (document,) = mirror.state.documents.values()
        text = (mirror.files / document.path).read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Shop `x` # y", "## GET /orders/{id}: Read an order", "## DELETE /orders/{id}: cancel",
    ]  # fmt: skip
    read, cancel = text.split("## ")[1:]
    assert "- `id` (path, integer, required): The number." in read
    assert "- `state` (string: one of open, paid, required): How it stands." in read
    assert "  - `parent`" in read, "what refers to itself ends"
    assert "deprecated" in cancel
    assert "Answer 204: Gone." in cancel


@pytest.mark.parametrize("body", [b"[1", b"{}", b'{"paths": []}', b"a: &a [*a]", b"\xff\xfe"])
def test_what_is_no_description_is_refused(body: bytes, tmp_path: Path) -> None:
    with FakeSite() as site:
        site.pages["/openapi.yaml"] = Page(body)
        source = Source(name="api", collection="docs", kind="openapi", location=f"{site.url}/openapi.yaml")
        with pytest.raises(SourceError, match=r"openapi\.yaml is n"):
            listed(source, tmp_path)


SELF = {"$ref": "#/a"}
ENDLESS: dict[str, dict[str, Any]] = {
    "fields": {"properties": {f"f{n}": SELF for n in range(60)}},
    "lists": {"type": "array", "items": SELF, "allOf": [SELF] * 60},
    "parts": {"allOf": [SELF] * 5000, "properties": {f"f{n}": {"allOf": [SELF] * 60} for n in range(60)}},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_schemas_that_stand_for_endless_ones_end(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.sources.openapi._REFERENCES", 100_000)
    answers = {"responses": {str(n): {"content": {"a/b": {"schema": SELF}}} for n in range(500)}}
    with pytest.raises(SourceError, match=r"too (often|long)"):
        markdown({"a": schema, "paths": {f"/{n}": {"get": answers} for n in range(5000)}}, 1 << 20)


def test_aliases_stand_for_no_texts_and_merge_keys_are_refused() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
    body = f"l0: &l0 [x]\n{levels}\npaths: {{/a: {{get: {{summary: *l29, description: *l29, tags: [x]}}}}}}"
    assert "## GET /a\n" in markdown(_parsed(body.encode(), "x"))
    levels = "\n".join(f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 3)}]}}" for n in range(1, 30))
    with pytest.raises(SourceError, match="merge keys"):
        _parsed(f"l0: &l0 {{a: 1}}\n{levels}\npaths: {{/a: *l29}}".encode(), "x")


def test_odd_parts_of_a_description_are_left_out() -> None:
    odd = {"/a": {"get": {"parameters": [1, None], "responses": []}, "post": 3}, "/b": None, 3: {"get": {"summary": 4}}}
    assert "## GET /a" in markdown({"paths": odd})
    assert "## GET 3: 4" in markdown({"paths": odd})


@pytest.mark.parametrize(
    ("kind", "location"),
    [("github", "https://github.com/us"), ("gitlab", "https://gitlab.com"), ("confluence", "https://x.example/wiki")],
)
def test_an_incomplete_address_is_refused(kind: str, location: str) -> None:
    with pytest.raises(ValidationError, match="name the"):
        Source.model_validate({"name": "a", "collection": "docs", "kind": kind, "location": location})
