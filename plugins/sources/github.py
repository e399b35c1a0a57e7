"""Resolved issues, or answered discussions, of a repository on GitHub.

Of an issue's comments only those of people of the project count, and those that others approved of: they answer it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from plugins.sources.api import ApiConnector, Entry, thread_markdown
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


class GitHubConnector(ApiConnector):
    """Names each thread by its number."""

    def entries(self) -> Iterator[Entry]:
        """See `ApiConnector`."""
        return self._discussions() if self.source.threads == "discussions" else self._issues()

    @property
    def _api(self) -> str:
        return "https://api.github.com" if urlsplit(self.origin).hostname == "github.com" else self.origin

    def _issues(self) -> Iterator[Entry]:
        wanted = {"state": "closed", "sort": "updated", "per_page": _PER_PAGE, "labels": self.source.labels}
        page = 1
        rows: list[Any] = [None]
        while rows and page <= self.source.pages:
            rows = self.read(f"{self._api}/repos/{self.path}/issues", **wanted, page=page)
            for row in rows:
                if "pull_request" not in row and row.get("state_reason") in ("completed", None):
                    key = f"issues/{row['number']}"
                    yield Entry(key, row["updated_at"], row["title"], row["html_url"], row)
            page, rows = page + 1, rows if len(rows) == _PER_PAGE else []

    def _discussions(self) -> Iterator[Entry]:
        owner, _, name = self.path.partition("/")
        after, more = None, True
        while more:
            body = {"query": _DISCUSSIONS, "variables": {"owner": owner, "name": name, "after": after}}
            data = (self.read(f"{self._api}/graphql", body).get("data") or {}).get("repository")
            if data is None:
                raise SourceError(f"{self.source.location} has no discussions that the token may read")
            for row in data["discussions"]["nodes"]:
                yield Entry(f"discussions/{row['number']}", row["updatedAt"], row["title"], row["url"], row)
            more, after = (data["discussions"]["pageInfo"][name] for name in ("hasNextPage", "endCursor"))

    def text(self, entry: Entry) -> str:
        """See `ApiConnector`."""
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


connect = GitHubConnector
