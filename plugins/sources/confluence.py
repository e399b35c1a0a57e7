"""Pages of a space in Confluence: `https://NAME.atlassian.net/wiki/spaces/KEY`, or of a Data Center's own address."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import quote, urljoin

from plugins.sources.api import ApiConnector, Entry, page_html
from plugins.sources.source import SourceError

_PER_PAGE = 100


class ConfluenceConnector(ApiConnector):
    """Names each page by its number. The cloud has version 2 of the API, a Data Center version 1."""

    suffix: ClassVar = ".html"

    def headers(self) -> dict[str, str]:
        user = self.source.secret("USER")
        if not user:
            return super().headers()
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{self.token}'.encode()).decode()}"}

    @property
    def _place(self) -> tuple[str, str]:
        """The address of the wiki and the key of the space."""
        wiki, key = re.split("/(?:spaces|display)/", f"{self.origin}/{self.path}", maxsplit=1)
        return wiki, key.partition("/")[0]

    @property
    def _is_cloud(self) -> bool:
        return self._place[0].endswith("/wiki")

    def entries(self) -> Iterator[Entry]:
        wiki, space = self._place
        if self._is_cloud:
            spaces = self.read(f"{wiki}/api/v2/spaces", keys=space)["results"]
            if not spaces:
                raise SourceError(f"{wiki} has no space {space} that the token may read")
            address = f"{wiki}/api/v2/spaces/{quote(str(spaces[0]['id']))}/pages?status=current&limit={_PER_PAGE}"
        else:
            address = f"{wiki}/rest/api/content?spaceKey={quote(space)}&type=page&expand=version&limit={_PER_PAGE}"
        for _ in range(self.source.pages):
            if not address.startswith(f"{self.origin}/"):
                raise SourceError(f"{wiki} goes on at {address[:200]}: the token is not sent there")
            listed = self.read(address)
            for row in listed["results"]:
                url = f"{wiki}{row['_links']['webui']}"
                yield Entry(f"pages/{row['id']}", str(row["version"]["number"]), row["title"], url, row)
            following = listed["_links"].get("next")
            # Of the cloud it begins with /wiki, of a Data Center with /rest.
            if not following:
                return
            address = urljoin(f"{wiki}/", following if self._is_cloud else following.lstrip("/"))

    def text(self, entry: Entry) -> str:
        wiki, number = self._place[0], quote(str(entry.about["id"]), safe="")
        if self._is_cloud:
            page = self.read(f"{wiki}/api/v2/pages/{number}", **{"body-format": "export_view"})
        else:
            page = self.read(f"{wiki}/rest/api/content/{number}", expand="body.export_view")
        return page_html(entry.title, page["body"]["export_view"]["value"])
