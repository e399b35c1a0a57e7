"""Issues of GitHub that were resolved.

Of an issue's comments only those of people of the project count, and those that others approved of: they answer it. An
issue is its answers, headed by its question, so that the words of whoever asked are quoted to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from urllib.parse import quote, urlsplit

from plugins.sources.api import ApiConnector, Entry
from text.sanitize import sanitize_line

ASKED_CHARS = 200
"""What of a question heads its answers."""
_TEAM = ("OWNER", "MEMBER", "COLLABORATOR")
_PER_PAGE = 100


class GitHubConnector(ApiConnector):
    """Names each issue by its number."""

    @property
    def _issues(self) -> str:
        api = "https://api.github.com" if urlsplit(self.origin).hostname == "github.com" else self.origin
        return f"{api}/repos/{self.path}/issues"

    def entries(self) -> Iterator[Entry]:
        wanted = {"state": "closed", "sort": "updated", "labels": self.source.labels, "per_page": _PER_PAGE}
        for page in range(1, self.source.pages + 1):
            rows = self.read(self._issues, **wanted, page=page)
            for row in rows:
                if "pull_request" not in row and row.get("state_reason") in ("completed", None):
                    yield Entry(f"issues/{row['number']}", row["updated_at"], row["title"], row["html_url"], row)
            if len(rows) < _PER_PAGE:
                return

    def text(self, entry: Entry) -> str:
        about = entry.about
        place = f"{self._issues}/{quote(str(about['number']), safe='')}/comments"
        comments = self.read(place, per_page=_PER_PAGE) if about.get("comments") else []
        answers = [
            comment["body"]
            for comment in comments
            if comment["body"]
            and (comment.get("author_association") in _TEAM or comment.get("reactions", {}).get("+1", 0) > 0)
        ]
        return thread_markdown(entry.title, about["body"] or "", answers)


def thread_markdown(title: str, question: str, answers: Sequence[str]) -> str:
    """Return the answers of an issue as Markdown, each headed by the beginning of the question."""
    asked = unescape(sanitize_line(question))
    heading = f"Answer to: {asked if len(asked) <= ASKED_CHARS else asked[:ASKED_CHARS].rstrip() + '…'}"
    parts = (f"# {sanitize_line(str(title))}", *(f"## {heading}\n\n{_below(answer)}" for answer in answers))
    return "\n\n".join(parts) + "\n"


def _below(answer: str) -> str:
    """Return an answer whose headings are below the one that it stands under; code stays as it is."""
    fenced, lines = False, list[str]()
    for line in answer.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        lines.append(line if fenced else re.sub(r"^(#{1,4})(?=\s)", r"\1##", line))
    return "\n".join(lines)
