"""Closed issues of a project on GitLab, with what people wrote below them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from plugins.sources.api import ApiConnector, Entry, thread_markdown

_PER_PAGE = 100


class GitLabConnector(ApiConnector):
    """Names each issue by its number."""

    def headers(self) -> dict[str, str]:
        """See `ApiConnector`."""
        return {"PRIVATE-TOKEN": self.token} if self.token else {}

    @property
    def _issues(self) -> str:
        return f"{self.origin}/api/v4/projects/{quote(self.path, safe='')}/issues"

    def entries(self) -> Iterator[Entry]:
        """See `ApiConnector`."""
        wanted = {"state": "closed", "order_by": "updated_at", "per_page": _PER_PAGE, "labels": self.source.labels}
        page = 1
        rows: list[Any] = [None]
        while rows and page <= self.source.pages:
            rows = self.read(self._issues, **wanted, page=page)
            for row in rows:
                yield Entry(f"issues/{row['iid']}", row["updated_at"], row["title"], row["web_url"], row)
            page, rows = page + 1, rows if len(rows) == _PER_PAGE else []

    def text(self, entry: Entry) -> str:
        """See `ApiConnector`."""
        about = entry.about
        notes = []
        if about.get("user_notes_count"):
            notes = self.read(
                f"{self._issues}/{quote(str(about['iid']), safe='')}/notes", sort="asc", per_page=_PER_PAGE
            )
        answers = [note["body"] for note in notes if not note.get("system") and note["body"]]
        return thread_markdown(entry.title, about["description"] or "", answers)


connect = GitLabConnector
