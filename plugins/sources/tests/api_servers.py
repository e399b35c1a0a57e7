"""Servers that speak the APIs of GitHub, GitLab, Discourse and Confluence, in the shapes of their references.

Each holds `texts` by name, which stands for a document's number, in pages of `PAGE` as far as the API says how many.
Of a thread the text is its answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from plugins.sources.source import Source
from plugins.sources.tests.connector import Place
from tests.http_server import FakeHandler, ServedFake
from tests.web_site import answer, handler_of

TOKEN = "t0ken"
PAGE = 1


@dataclass
class FakeApi(ServedFake, Place):
    """`texts` by name, with a version that each change counts up; `fails` refuses everything."""

    kind: ClassVar[str]
    location: ClassVar[str]
    header: ClassVar[tuple[str, str]] = ("Authorization", f"Bearer {TOKEN}")
    options: ClassVar[dict[str, Any]] = {}
    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    fails: bool = False

    def handler(self) -> type[FakeHandler]:
        return handler_of(self._answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def source(self) -> Source:
        values = {"name": "place", "collection": "docs", "kind": self.kind, "location": self.url + self.location}
        return Source.model_validate({**values, **self.options})

    def put(self, name: str, text: str) -> None:
        self.texts[name], self.versions[name] = text, self.versions.get(name, 0) + 1

    def delete(self, name: str) -> None:
        del self.texts[name]

    def fail(self) -> None:
        self.fails = True

    def _answer(self, request: FakeHandler) -> None:
        name, value = self.header
        if self.fails or request.headers.get(name) != value:
            answer(request, 503 if self.fails else 401, b'{"message": "no"}', {"Retry-After": "60"})
            return
        parts = urlsplit(request.path)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        query: dict[str, Any] = dict(parse_qsl(parts.query))
        reply = self.reply(parts.path, query, json.loads(body) if body else None)
        content = json.dumps(reply if reply is not None else {"message": "Not Found"}).encode()
        answer(request, 404 if reply is None else 200, content, {"Content-Type": "application/json"})

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        raise NotImplementedError

    def named(self, path: str, before: str, after: str = "") -> str:
        """The name in a path, unless it is another path or there is no such document."""
        name = unquote(path.removeprefix(before).removesuffix(after))
        return name if path.startswith(before) and path.endswith(after) and name in self.texts else ""


class FakeGitHub(FakeApi):
    kind, location = "github", "/us/docs"

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        if path == "/graphql":
            return self._discussions(body["variables"]["after"])
        if name := self.named(path, "/repos/us/docs/issues/", "/comments"):
            comments = [("NONE", "Me too!", 0), ("MEMBER", self.texts[name], 0), ("NONE", "This helped.", 3)]
            return [{"author_association": who, "body": text, "reactions": {"+1": up}} for who, text, up in comments]
        if path != "/repos/us/docs/issues" or query["state"] != "closed":
            return None
        rows = [self._row(name) for name in self.texts]
        others = [
            {"number": 90, "title": "A change", "pull_request": {}, "state_reason": None},
            {"number": 91, "title": "No", "state_reason": "not_planned"},
        ]
        return [*others, *rows] if query["page"] == "1" else []

    def _row(self, name: str) -> dict[str, Any]:
        about = {"state_reason": "completed", "comments": 3, "html_url": f"https://github.example/issues/{name}"}
        changed = {"updated_at": f"2026-01-01T00:00:{self.versions[name]:02}Z"}
        return {"number": name, "title": f"About {name}", "body": f"How is {name}?", **about, **changed}

    def _discussions(self, after: str | None) -> Any:
        at = int(after or 0)
        nodes = [
            {
                "number": name, "title": f"About {name}", "url": f"https://github.example/discussions/{name}",
                "body": f"How is {name}?", "updatedAt": str(self.versions[name]), "answer": {"body": self.texts[name]},
            }
            for name in list(self.texts)[at : at + PAGE]
        ]  # fmt: skip
        more = {"hasNextPage": at + PAGE < len(self.texts), "endCursor": str(at + PAGE)}
        return {"data": {"repository": {"discussions": {"pageInfo": more, "nodes": nodes}}}}


class FakeDiscussions(FakeGitHub):
    options: ClassVar = {"threads": "discussions"}


class FakeGitLab(FakeApi):
    kind, location, header = "gitlab", "/us/team/docs", ("PRIVATE-TOKEN", TOKEN)

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        place = f"/api/v4/projects/{quote('us/team/docs', safe='')}/issues"
        if name := self.named(path, f"{place}/", "/notes"):
            return [{"body": "closed", "system": True}, {"body": self.texts[name], "system": False}]
        if path != place or query["state"] != "closed":
            return None
        return [
            {
                "iid": name, "title": f"About {name}", "description": f"How is {name}?", "updated_at": str(version),
                "web_url": f"https://gitlab.example/issues/{name}", "user_notes_count": 1,
            }
            for name, version in self.versions.items()
            if name in self.texts and query["page"] == "1"
        ]  # fmt: skip


class FakeDiscourse(FakeApi):
    kind, location, header = "discourse", "/c/help/5", ("Api-Key", TOKEN)

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        if name := self.named(path, "/t/", ".json"):
            posts = [{"post_number": 1, "cooked": f"<p>How is <b>{name}</b>?</p>"}]
            return {"post_stream": {"posts": posts}, "accepted_answer": {"post_number": 30}}
        if name := self.named(path, "/posts/by_number/", "/30.json"):
            return {"cooked": f"<p>{self.texts[name]}</p>"}
        if path != "/c/help/5.json":
            return None
        names, at = list(self.texts), int(query["page"])
        rows = [
            {"id": name, "title": f"About {name}", "slug": "about", "posts_count": 31,
             "bumped_at": str(self.versions[name]), "has_accepted_answer": True}
            for name in names[at : at + PAGE]
        ]  # fmt: skip
        more = {"more_topics_url": f"/c/help/5?page={at + 1}"} if at + PAGE < len(names) else {}
        return {"topic_list": {"topics": [{"id": 7, "title": "Open"}, *rows], **more}}


class FakeConfluence(FakeApi):
    kind, location = "confluence", "/spaces/DOCS/overview"
    pages, page = "/rest/api/content", "/rest/api/content/"

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        if name := self.named(path, self.page):
            return {"body": {"export_view": {"value": f"<p>{self.texts[name]}</p>"}}}
        if path != self.pages:
            return None
        names, at = list(self.texts), int(query.get("start", 0))
        rows = [
            {"id": name, "title": f"About {name}", "version": {"number": self.versions[name]},
             "_links": {"webui": f"/display/DOCS/{name}"}}
            for name in names[at : at + PAGE]
        ]  # fmt: skip
        following = f"{self.pages}?spaceKey=DOCS&start={at + PAGE}"
        return {"results": rows, "_links": {"next": following} if at + PAGE < len(names) else {}}


class FakeCloud(FakeConfluence):
    location = "/wiki/spaces/DOCS"
    pages, page = "/wiki/api/v2/spaces/42/pages", "/wiki/api/v2/pages/"

    def reply(self, path: str, query: dict[str, Any], body: Any) -> Any:
        return {"results": [{"id": "42"}]} if path == "/wiki/api/v2/spaces" else super().reply(path, query, body)
