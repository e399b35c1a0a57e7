"""A bucket of an S3-compatible server: listed as a whole, each object read when its ETag is another.

Requests go through the same guard as those to web sites. Without a key (`ANAPHORA_SOURCE_<NAME>_KEY` and `_SECRET` in
the environment) the bucket is asked as anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx

from plugins.sources.fetcher import Fetched, FetchingConnector, parse_tree
from plugins.sources.source import Guard, Item, Known, Pause, Source, SourceError, is_wanted, size_problem

_LIST_BYTES, _ROW_BYTES = 64 << 20, 200
"""What a list takes at most, and about what a row of it does."""


class BucketConnector(FetchingConnector):
    """Names the objects below the prefix; a version is an ETag."""

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        super().__init__(source, cache, guard, max_bytes)
        bucket, _, self._prefix = source.location.removeprefix("s3://").partition("/")
        endpoint = source.endpoint or f"https://s3.{source.region}.amazonaws.com"
        self._place = f"{endpoint.rstrip('/')}/{bucket}"
        self._auth: httpx.Auth | None = None
        if key := source.secret("KEY"):
            from httpx_auth import AWS4Auth

            self._auth = AWS4Auth(key, source.secret("SECRET") or "none", source.region, "s3")

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. Nothing is named before the whole list is there."""
        for key, version, size in list(self._listed(pause)):
            pause(0)
            url = self.source.address(key)
            if problem := size_problem(size, self.max_bytes):
                yield Item(key, problem=problem)
            elif key in previous and previous[key].version == version:
                yield Item(key, version, url=url)
            else:
                response = self._get(f"{self._place}/{quote(key)}")
                problem = f"it is answered with HTTP {response.status}" if response.status != 200 else ""
                yield Item(key, version, response.body, url, problem=problem, gone=response.status == 404)

    def _listed(self, pause: Pause) -> Iterator[tuple[str, str, int]]:
        """Key, ETag and size of every object that is worth keeping."""
        parameters, room = {"list-type": "2", "prefix": self._prefix}, _LIST_BYTES
        while room > 0:
            pause(0)
            response = self._get(f"{self._place}?{urlencode(sorted(parameters.items()), quote_via=quote)}")
            tree = parse_tree(response.body, html=False) if response.status == 200 else None
            if tree is None or not str(tree.tag).endswith("ListBucketResult"):
                raise SourceError(
                    f"{self._place} cannot be listed (HTTP {response.status}): check name, key and region"
                )
            for entry in tree.iter("{*}Contents"):
                key, version, size = (entry.findtext(f"{{*}}{name}") or "" for name in ("Key", "ETag", "Size"))
                if size.isdigit() and int(size) and is_wanted(key, int(size)):
                    room -= len(key) + len(version) + _ROW_BYTES
                    yield key, version, int(size)
            room -= _ROW_BYTES
            token = tree.findtext("{*}NextContinuationToken")
            if not token:
                return
            parameters["continuation-token"] = token
        raise SourceError(f"{self._place} lists more than {_LIST_BYTES // _ROW_BYTES:,} objects: name a longer prefix")

    def _get(self, url: str) -> Fetched:
        return self.fetcher.get(url, redirects=0, auth=self._auth)
