"""Threads that were answered: issues and discussions of GitHub, issues of GitLab, topics of a Discourse forum.

Of an issue's comments on GitHub only those of people of the project count, and those that others approved of: they
answer it. Of a topic the accepted answer counts, of an issue of GitLab everything that people wrote below it. A thread
is its answers, headed by its question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from plugins.sources.api import ApiConnector, Entry, thread_html, thread_markdown
from plugins.sources.source import SourceError

_TEAM = ("OWNER", "MEMBER", "COLLABORATOR")
_PER_PAGE = 100
_DISCUSSIONS = """query ($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussions(first: 50, after: $after, answered: true, orderBy: {field: UPDATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes { number title url body updatedAt answer { body } }
    }
  }
}"""


class _ClosedIssues(ApiConnector):
    """Lists the closed issues at an address, as both hosts page them."""

    def issues(self, url: str, **wanted: str) -> Iterator[Any]:
        """Yield the rows of the list, those of the newest `pages` pages."""
        for page in range(1, self.source.pages + 1):
            rows = self.read(url, **wanted, state="closed", labels=self.source.labels, per_page=_PER_PAGE, page=page)
            yield from rows
            if len(rows) < _PER_PAGE:
                return


class GitHubConnector(_ClosedIssues):
    """Names each thread by its number."""

    def entries(self) -> Iterator[Entry]:
        return self._discussions() if self.source.threads == "discussions" else self._issues()

    @property
    def _api(self) -> str:
        return "https://api.github.com" if urlsplit(self.origin).hostname == "github.com" else self.origin

    def _issues(self) -> Iterator[Entry]:
        for row in self.issues(f"{self._api}/repos/{self.path}/issues", sort="updated"):
            if "pull_request" not in row and row.get("state_reason") in ("completed", None):
                yield Entry(f"issues/{row['number']}", row["updated_at"], row["title"], row["html_url"], row)

    def _discussions(self) -> Iterator[Entry]:
        owner, _, name = self.path.partition("/")
        after = None
        for _ in range(self.source.pages):
            body = {"query": _DISCUSSIONS, "variables": {"owner": owner, "name": name, "after": after}}
            data = (self.read(f"{self._api}/graphql", body).get("data") or {}).get("repository")
            if data is None:
                raise SourceError(f"{self.source.location} has no discussions that the token may read")
            for row in data["discussions"]["nodes"]:
                yield Entry(f"discussions/{row['number']}", row["updatedAt"], row["title"], row["url"], row)
            more, after = (data["discussions"]["pageInfo"][name] for name in ("hasNextPage", "endCursor"))
            if not more:
                return

    def text(self, entry: Entry) -> str:
        about = entry.about
        if self.source.threads == "discussions":
            return thread_markdown(entry.title, about["body"] or "", [about["answer"]["body"]])
        place = f"{self._api}/repos/{self.path}/issues/{quote(str(about['number']), safe='')}/comments"
        comments = self.read(place, per_page=_PER_PAGE) if about.get("comments") else []
        answers = [
            comment["body"]
            for comment in comments
            if comment["body"]
            and (comment.get("author_association") in _TEAM or comment.get("reactions", {}).get("+1", 0) > 0)
        ]
        return thread_markdown(entry.title, about["body"] or "", answers)


class GitLabConnector(_ClosedIssues):
    """Names each issue by its number."""

    def headers(self) -> dict[str, str]:
        return {"PRIVATE-TOKEN": self.token} if self.token else {}

    @property
    def _issues(self) -> str:
        return f"{self.origin}/api/v4/projects/{quote(self.path, safe='')}/issues"

    def entries(self) -> Iterator[Entry]:
        for row in self.issues(self._issues, order_by="updated_at"):
            yield Entry(f"issues/{row['iid']}", row["updated_at"], row["title"], row["web_url"], row)

    def text(self, entry: Entry) -> str:
        about = entry.about
        notes = []
        if about.get("user_notes_count"):
            notes = self.read(
                f"{self._issues}/{quote(str(about['iid']), safe='')}/notes", sort="asc", per_page=_PER_PAGE
            )
        answers = [note["body"] for note in notes if not note.get("system") and note["body"]]
        return thread_markdown(entry.title, about["description"] or "", answers)


class DiscourseConnector(ApiConnector):
    """Names each topic by its number."""

    suffix: ClassVar = ".html"

    def headers(self) -> dict[str, str]:
        user = self.source.secret("USER") or "system"
        return {"Api-Key": self.token, "Api-Username": user} if self.token else {}

    def entries(self) -> Iterator[Entry]:
        listed = f"{self.origin}/{self.path or 'latest'}.json"
        for page in range(self.source.pages):
            topics = self.read(listed, page=page)["topic_list"]
            for row in topics["topics"]:
                if row.get("has_accepted_answer"):
                    url = f"{self.origin}/t/{quote(str(row.get('slug') or '-'))}/{quote(str(row['id']))}"
                    version = f"{row.get('bumped_at')} {row.get('posts_count')}"
                    yield Entry(f"topics/{row['id']}", version, row["title"], url, row)
            if not topics.get("more_topics_url"):
                return

    def text(self, entry: Entry) -> str:
        number = quote(str(entry.about["id"]), safe="")
        topic: dict[str, Any] = self.read(f"{self.origin}/t/{number}.json")
        posts = {post["post_number"]: post["cooked"] for post in topic["post_stream"]["posts"]}
        accepted = (topic.get("accepted_answer") or {}).get("post_number", 0)
        if accepted and accepted not in posts:
            posts[accepted] = self.read(f"{self.origin}/posts/by_number/{number}/{int(accepted)}.json")["cooked"]
        return thread_html(entry.title, posts.get(1, ""), [posts[accepted]] if accepted else [])
