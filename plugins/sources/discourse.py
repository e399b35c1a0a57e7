"""Solved topics of a Discourse forum, or of a category of it (`/c/SLUG/ID`): the question and the accepted answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import quote

from plugins.sources.api import ApiConnector, Entry, thread_html


class DiscourseConnector(ApiConnector):
    """Names each topic by its number."""

    suffix: ClassVar = ".html"

    def headers(self) -> dict[str, str]:
        """See `ApiConnector`."""
        user = self.source.secret("USER") or "system"
        return {"Api-Key": self.token, "Api-Username": user} if self.token else {}

    def entries(self) -> Iterator[Entry]:
        """See `ApiConnector`."""
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
        """See `ApiConnector`."""
        number = quote(str(entry.about["id"]), safe="")
        topic: dict[str, Any] = self.read(f"{self.origin}/t/{number}.json")
        posts = {post["post_number"]: post["cooked"] for post in topic["post_stream"]["posts"]}
        accepted = (topic.get("accepted_answer") or {}).get("post_number", 0)
        if accepted and accepted not in posts:
            posts[accepted] = self.read(f"{self.origin}/posts/by_number/{number}/{int(accepted)}.json")["cooked"]
        return thread_html(entry.title, posts.get(1, ""), [posts[accepted]] if accepted else [])


connect = DiscourseConnector
