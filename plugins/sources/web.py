"""A web site: its sitemap and its links, politely.

robots.txt is obeyed, and where it cannot be had nothing is asked for. Only pages of the same origin below one prefix
count, each under its canonical address and once. A page that is known is asked for again whether a link leads to it or
not, and is deleted only where the site says so itself: 404, 410, `noindex`, or a move to another address.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx

from plugins.sources.fetcher import AGENT, Fetched, FetchingConnector, parse_tree
from plugins.sources.source import Guard, Item, Known, Pause, Source, SourceError
from text.sanitize import is_showable

if TYPE_CHECKING:
    from protego import Protego

_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
}
_TRACKING = ("utm_", "gclid", "fbclid", "mc_cid", "mc_eid")
_LONGEST = 1000
_SITEMAPS, _SITEMAP_URLS, _LINKS = 50, 50_000, 20_000
# So many requests in a row that fail, or that the server refuses for now, end a run.
_FAILURES = 5
_LONGEST_DELAY = 60.0
_BOM = b"\xef\xbb\xbf"


class _PageVersion(NamedTuple):
    """Stored version of a page: validators, distance in links from the first page, and a digest."""

    etag: str
    modified: str
    depth: int
    digest: str


class _Page(NamedTuple):
    """Metadata and links of a page."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    kept: bool = True


class WebConnector(FetchingConnector):
    """Names the pages that it is led to."""

    lists_all = False

    def __init__(self, source: Source, cache: Path, guard: Guard, max_bytes: int) -> None:
        super().__init__(source, cache, guard, max_bytes)
        self._start = canonical(source.location)
        self._prefix = source.prefix or self._start[: self._start.rindex("/") + 1]

    def items(self, previous: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. The first page must answer, or nothing is taken for deleted."""
        pause(0)
        robots, failures, most = self._robots(), 0, self.source.pages
        delay = max(self.source.delay, min(_LONGEST_DELAY, float(robots.crawl_delay(AGENT) or 0)))
        waiting, met = deque([(self._start, 0)]), {self._start}

        def meet(url: str, depth: int) -> None:
            # Of more than are read nothing is remembered: a site may name as many as it likes.
            if len(waiting) < most and url not in met and self._within(url):
                met.add(url)
                waiting.append((url, depth))

        for item in self._sitemap(robots, lambda: pause(delay)):
            if item.problem:
                yield item
            else:
                meet(item.key, 1)
        for url in sorted(previous):
            meet(url, _version(previous[url]).depth)
        for count in range(most):
            if not waiting:
                return
            url, depth = waiting.popleft()
            before = previous.get(url)
            if not robots.can_fetch(url, AGENT):
                if before:
                    yield Item(url, problem="robots.txt does not allow it any more")
                continue
            pause(delay if count else 0)
            try:
                version = _version(before) if before else _PageVersion("", "", 0, "")
                validators = {"If-None-Match": version.etag, "If-Modified-Since": version.modified}
                answer = self.fetcher.get(url, {name: value for name, value in validators.items() if value})
                status, problem = answer.status, f"it is answered with HTTP {answer.status}"
            except SourceError as error:
                status, problem = 599, str(error)
            failures = failures + 1 if status >= 500 or status == 429 else 0
            if status >= 400:
                if url == self._start or failures == _FAILURES:
                    raise SourceError(f"{url}: {problem}. The rest was not looked at, and nothing of it deleted")
                if before and status in (404, 410):
                    yield Item(url, gone=True)
                elif before or status not in (404, 410):
                    yield Item(url, problem=problem)
                continue
            item, page = self._read(answer, url, previous, depth)
            if item.version or item.gone or item.problem:
                yield item
            for link in page.links if depth < self.source.depth else ():
                meet(link, depth + 1)
            meet(page.canonical, depth)

    def _read(self, answer: Fetched, url: str, previous: Mapping[str, Known], depth: int) -> tuple[Item, _Page]:
        """The document of an answer, and where else it leads; it has neither version nor problem where it is none."""
        before, landed, headers = previous.get(url), canonical(answer.url), answer.headers
        if landed != url:
            within = self._within(landed)
            if url == self._start and not within:
                raise SourceError(f"{url} leads to {landed}: give that address")
            problem = "" if answer.permanent or not before else "it leads to another address for now"
            gone = before is not None and not problem and (landed in previous or not within)
            return Item(url, gone=gone, problem=problem), _Page(canonical=landed)
        if answer.status == 304 and before:
            # What it leads to may not have been reached the last time.
            page = _page(before.path.read_bytes(), url) if before.path.suffix == ".html" else _Page()
            return Item(url, before.version, url=url), page._replace(canonical="")
        kind, _, parameters = headers.get("content-type", "").lower().partition(";")
        suffix, page, body = _SUFFIXES.get(kind.strip(), ""), _Page(), answer.body
        if not suffix:
            return Item(url, problem=f"it is no document now, but {kind[:60]!r}" if before else ""), page
        if suffix == ".html":
            body = _as_utf8(body, parameters)
            page = _page(body, url, headers.get("x-robots-tag", ""))
        elsewhere = page.canonical != url and self._within(page.canonical)
        if not page.kept or (elsewhere and (before is None or page.canonical in previous)):
            return Item(url, gone=before is not None), page
        digest = hashlib.sha256(body).hexdigest()[:32]
        version = _PageVersion(headers.get("etag", ""), headers.get("last-modified", ""), depth, digest)
        content = None if before and _version(before).digest == digest else body
        return Item(url, json.dumps(version), content, url, suffix=suffix), page

    def _robots(self) -> Protego:
        from protego import Protego

        url = urljoin(self._start, "/robots.txt")
        answer = self.fetcher.get(url)
        if answer.status >= 500 or answer.status in (401, 403, 429):
            raise SourceError(f"{url} is answered with HTTP {answer.status}: without it nothing is asked for")
        robots = Protego.parse(answer.body[: 512 * 1024].decode("utf-8", "replace") if answer.status == 200 else "")
        if not robots.can_fetch(self._start, AGENT):
            raise SourceError(f"{url} does not allow {self._start} to be read")
        return robots

    def _sitemap(self, robots: Protego, wait: Callable[[], None]) -> Iterator[Item]:
        """The pages that sitemaps name, and sitemaps with their problems."""
        named = [self.source.sitemap] if self.source.sitemap else list(robots.sitemaps)
        waiting, requested = deque(named or [urljoin(self._start, "/sitemap.xml")]), set[str]()
        while waiting and len(requested) < _SITEMAPS:
            url = canonical(waiting.popleft())
            if url in requested or _origin(url) != _origin(self._start):
                continue
            requested.add(url)
            wait()
            try:
                answer = self.fetcher.get(url)
            except SourceError as error:
                yield Item(url, problem=str(error))
                continue
            if named and answer.status != 200:
                yield Item(url, problem=f"the sitemap is answered with HTTP {answer.status}")
            tree = parse_tree(answer.body, html=False) if answer.status == 200 else None
            for place in [] if tree is None else list(tree.iter("{*}loc"))[:_SITEMAP_URLS]:
                location = canonical(urljoin(url, (place.text or "").strip()))
                if str(place.getparent().tag).endswith("}sitemap"):
                    waiting.extend([location] * (len(waiting) < _SITEMAPS))
                else:
                    yield Item(location)

    def _within(self, url: str) -> bool:
        same_origin = 0 < len(url) <= _LONGEST and _origin(url) == _origin(self._start)
        return same_origin and url.startswith(self._prefix) and is_showable(url)


def canonical(url: str) -> str:
    """Return an address as it is compared, without fragment, default port and marks of campaigns; empty for none."""
    try:
        address = httpx.URL(url.strip())
        address = address.copy_with(raw_path=address.raw_path, fragment=None)
    except (httpx.InvalidURL, ValueError):
        return ""
    if address.scheme not in ("http", "https") or not address.host or address.userinfo:
        return ""
    if any(mark.encode() in address.query for mark in _TRACKING):
        pairs = parse_qsl(address.query.decode("ascii"), keep_blank_values=True)
        query = urlencode([pair for pair in pairs if not pair[0].startswith(_TRACKING)])
        address = address.copy_with(query=query.encode() or None)
    return str(address)


def _origin(url: str) -> tuple[str, str]:
    return urlsplit(url)[:2]


def _version(stored: Known) -> _PageVersion:
    return _PageVersion(*json.loads(stored.version))


def _as_utf8(body: bytes, parameters: str) -> bytes:
    """Return the page with its character set in the file, for a page that declares it only in its headers."""
    charset = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'")
    try:
        return body if charset in ("", "utf-8", "utf8") else _BOM + body.decode(charset, "replace").encode()
    except (LookupError, UnicodeEncodeError):
        return body


def _page(body: bytes, url: str, robots_header: str = "") -> _Page:
    tree = parse_tree(body, html=True)
    base, own, rules, links = url, "", robots_header.lower(), dict[str, None]()
    for element in () if tree is None else tree.iter("base", "link", "meta", "a"):
        attributes = {name: (element.get(name) or "").strip() for name in ("href", "rel", "name", "content")}
        try:
            href = urljoin(base, attributes["href"])
        except ValueError:
            continue
        if element.tag == "meta":
            rules += f",{attributes['content'].lower()}" * (attributes["name"].lower() in ("robots", "anaphora"))
        elif element.tag == "base":
            base = href
        elif element.tag == "link":
            own = canonical(href) if attributes["rel"].lower() == "canonical" else own
        elif len(links) < _LINKS and attributes["href"] and "nofollow" not in attributes["rel"].lower():
            links[canonical(href)] = None
    words = {rule.strip() for rule in rules.split(",")}
    return _Page(() if words & {"nofollow", "none"} else tuple(links), own, not words & {"noindex", "none"})
