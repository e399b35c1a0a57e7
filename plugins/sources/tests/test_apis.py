"""Issues and wikis as sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from plugins.sources.github import thread_markdown
from plugins.sources.mirror import SourceMirror
from plugins.sources.source import Source, SourceError
from plugins.sources.tests import api_servers
from plugins.sources.tests.api_servers import TOKEN, FakeApi
from plugins.sources.tests.connector import ConnectorContract, listed, opened, synced
from tests.http_server import FakeHandler
from tests.web_site import FakeSite, answer, serving

SERVERS = ("FakeGitHub", "FakeConfluence", "FakeCloud")


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
        if place.kind == "github":
            question, answer = (text.index(part) for part in ("Answer to: How is one.md", "The first document."))
            assert question < answer, "what was asked heads the answer, and is no text that could be quoted"
            assert text.count("How is") == text.count("Answer to: How is") == 2
            assert "This helped." in text
        assert "Me too!" not in text

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
        source = Source(name="place", collection="docs", kind="github", location=f"http://127.0.0.1:{port}/us/docs")
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

        def reply(self, path: str, query: dict[str, Any]) -> Any:
            value = super().reply(path, query)
            odd: Any = {"title": {"a": "# b"}, "updated_at": 7, "html_url": ["javascript:"]}

            def changed(part: Any) -> Any:
                if isinstance(part, list):
                    return [changed(item) for item in part]
                if not isinstance(part, dict):
                    return part
                first = {"next": part.get("next", "").partition("start=")[0] + "start=0"}
                values = {**odd, **first}
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


@pytest.mark.parametrize(
    ("kind", "location"),
    [("github", "https://github.com/us"), ("confluence", "https://x.example/wiki")],
)
def test_an_incomplete_address_is_refused(kind: str, location: str) -> None:
    with pytest.raises(ValidationError, match="name the"):
        Source.model_validate({"name": "a", "collection": "docs", "kind": kind, "location": location})
