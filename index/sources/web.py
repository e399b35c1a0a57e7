"""A web site: its sitemap and its links, politely.

robots.txt is obeyed, and where it cannot be had nothing is asked for. Only pages of the same origin below one prefix
count, each under its canonical address and once. A page that is known is asked for again whether a link leads to it or
not, and is deleted only where the site says so itself: 404, 410, `noindex`, or a move to another address.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from index.errors import SourceError
from index.sources.guard import AGENT, Fetched, Fetcher
from index.sources.protocol import Item, Known, Pause
from index.sources.source import Source
from text.unsafe import is_showable

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
_SITEMAPS, _SITEMAP_URLS = 50, 50_000
_PARSED = 4 << 20
_FAILURES = 5
"""So many requests in a row without an answer, or with one that the server failed, end a run."""
_LONGEST_DELAY = 60.0
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Page:
    """What a page says about itself and where it leads."""

    links: tuple[str, ...] = ()
    canonical: str = ""
    kept: bool = True


class WebConnector:
    """Names the pages that it is led to; a version is what the server said of it: validators, digest, depth."""

    lists_all = False

    def __init__(self, source: Source, fetcher: Fetcher) -> None:
        self._source = source
        self._fetcher = fetcher
        self._start = canonical(source.location)
        self._prefix = source.prefix or self._start[: self._start.rindex("/") + 1]
        self._asked = 0

    def close(self) -> None:
        self._fetcher.close()

    def items(self, known: Mapping[str, Known], pause: Pause) -> Iterator[Item]:
        """See `Connector`. The first page must answer, or nothing is taken for deleted."""
        self._asked, failures = 0, 0
        robots = self._robots(pause)
        delay = max(self._source.delay, min(_LONGEST_DELAY, float(robots.crawl_delay(AGENT) or 0)))
        waiting = deque([(self._start, 0)])
        met = {self._start}
        kept = [(url, int(json.loads(known[url].version)[2])) for url in sorted(known)]
        for found in (*self._sitemap(robots, pause, delay), *kept):
            if isinstance(found, Item):
                yield found
            elif found[0] not in met and self._within(found[0]):
                met.add(found[0])
                waiting.append(found)
        while waiting and self._asked < self._source.pages:
            url, depth = waiting.popleft()
            if not robots.can_fetch(url, AGENT):
                if url in known:
                    yield Item(url, problem="robots.txt does not allow it any more; what was read of it stays")
                continue
            try:
                answer = self._ask(url, known.get(url), pause, delay)
            except SourceError as error:
                failures, problem, status = failures + 1, str(error), 0
            else:
                status = answer.status
                failures = failures + 1 if status >= 500 or status == 429 else 0
                problem = "" if status < 400 else f"it is answered with HTTP {status}"
            if problem and (url == self._start or failures == _FAILURES):
                raise SourceError(f"{url}: {problem}. The rest was not looked at, and nothing of it deleted")
            if problem:
                if url in known and status in (404, 410):
                    yield Item(url, gone=True)
                elif url in known or status not in (404, 410):
                    yield Item(url, problem=problem)
                continue
            item, page = self._read(answer, url, known, depth)
            if item.version or item.gone or item.problem:
                yield item
            for link in page.links if depth < self._source.depth else ():
                if link not in met and self._within(link):
                    met.add(link)
                    waiting.append((link, depth + 1))
            if page.canonical and page.canonical not in met:
                met.add(page.canonical)
                waiting.append((page.canonical, depth))

    def _ask(self, url: str, known: Known | None, pause: Pause, delay: float) -> Fetched:
        pause(delay if self._asked else 0)
        self._asked += 1
        etag, modified, *_ = json.loads(known.version) if known else ("", "")
        validators = {"If-None-Match": etag, "If-Modified-Since": modified}
        return self._fetcher.get(url, {name: value for name, value in validators.items() if value})

    def _read(self, answer: Fetched, url: str, known: Mapping[str, Known], depth: int) -> tuple[Item, _Page]:
        """The document of an answer, and where else it leads."""
        before = known.get(url)
        landed = canonical(answer.url)
        if answer.status == 304 and before and landed == url:
            # What it leads to may not have been reached the last time.
            page = _page(before.path.read_bytes(), url) if before.path.suffix == ".html" else _Page()
            return Item(url, before.version, url=url), _Page(page.links)
        if landed != url:
            within = self._within(landed)
            if url == self._start and not within:
                raise SourceError(f"{url} leads to {landed}: give that address")
            problem = "" if answer.permanent or not before else "it leads to another address for now"
            gone = before is not None and not problem and (landed in known or not within)
            return Item(url, gone=gone, problem=problem), _Page(canonical=landed if within else "")
        kind, _, parameters = answer.headers.get("content-type", "").lower().partition(";")
        suffix = _SUFFIXES.get(kind.strip(), "")
        if not suffix:
            return Item(url, problem=f"it is no document now, but {kind[:60]!r}" if before else ""), _Page()
        page, body = _Page(), answer.body
        if suffix == ".html":
            body = _as_utf8(body, parameters)
            page = _page(body, url, answer.headers.get("x-robots-tag", ""))
            if page.canonical == url or not self._within(page.canonical):
                page = replace(page, canonical="")
        if not page.kept:
            return Item(url, gone=before is not None), page
        if page.canonical and (before is None or page.canonical in known):
            return Item(url, gone=before is not None), page
        digest = hashlib.sha256(body).hexdigest()[:32]
        headers = answer.headers
        version = json.dumps([headers.get("etag", ""), headers.get("last-modified", ""), depth, digest])
        changed = before is None or json.loads(before.version)[3] != digest
        return Item(url, version, body if changed else None, url, suffix=suffix), page

    def _robots(self, pause: Pause) -> Protego:
        from protego import Protego

        url = urljoin(self._start, "/robots.txt")
        pause(0)
        answer = self._fetcher.get(url)
        if answer.status >= 500 or answer.status in (401, 403, 429):
            raise SourceError(f"{url} is answered with HTTP {answer.status}: without it nothing is asked for")
        robots = Protego.parse(answer.body[: 512 * 1024].decode("utf-8", "replace") if answer.status == 200 else "")
        if not robots.can_fetch(self._start, AGENT):
            raise SourceError(f"{url} does not allow {self._start} to be read")
        return robots

    def _sitemap(self, robots: Protego, pause: Pause, delay: float) -> Iterator[tuple[str, int] | Item]:
        """The pages that sitemaps name, as if the first page led to them, and the problems of sitemaps."""
        named = [self._source.sitemap] if self._source.sitemap else list(robots.sitemaps)
        waiting = deque(named or [urljoin(self._start, "/sitemap.xml")])
        asked, pages = set[str](), 0
        while waiting and len(asked) < _SITEMAPS:
            url = canonical(waiting.popleft())
            if url in asked or _origin(url) != _origin(self._start):
                continue
            asked.add(url)
            pause(delay)
            try:
                answer = self._fetcher.get(url)
                status, places, sitemaps = answer.status, *_places(answer.body if answer.status == 200 else b"")
            except SourceError as error:
                yield Item(url, problem=str(error))
                continue
            if named and status != 200:
                yield Item(url, problem=f"the sitemap is answered with HTTP {status}")
            waiting.extend(sitemaps)
            for place in places[: _SITEMAP_URLS - pages]:
                pages += 1
                yield canonical(urljoin(url, place)), 1

    def _within(self, url: str) -> bool:
        return (
            0 < len(url) <= _LONGEST
            and _origin(url) == _origin(self._start)
            and url.startswith(self._prefix)
            and is_showable(url)
        )


def canonical(url: str) -> str:
    """An address as it is compared: no fragment, no default port, no marks of campaigns; empty if it is none."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return ""
    host = f"[{host}]" if ":" in host else host
    default = port is None or (parts.scheme, port) in (("http", 80), ("https", 443))
    query = parts.query
    if any(mark in query for mark in _TRACKING):
        pairs = parse_qsl(query, keep_blank_values=True)
        query = urlencode([pair for pair in pairs if not pair[0].startswith(_TRACKING)])
    path = urlsplit(urljoin(f"http://h{parts.path or '/'}", parts.path or "/")).path
    return urlunsplit((parts.scheme, host if default else f"{host}:{port}", path, query, ""))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _as_utf8(body: bytes, parameters: str) -> bytes:
    """A page whose character set only its headers tell, so that it is told by the file too."""
    charset = parameters.partition("charset=")[2].strip(" \"'").partition(";")[0]
    if not charset or charset in ("utf-8", "utf8"):
        return body
    try:
        return _BOM + body.decode(charset, "replace").encode("utf-8", "replace")
    except LookupError:
        return body


def parse_tree(body: bytes, *, html: bool) -> Any:
    """The tree of a hostile page or sitemap; None where there is none. Nothing outside of it is read."""
    from lxml import etree

    parser = (
        etree.HTMLParser(encoding="utf-8", no_network=True)
        if html
        else etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    )
    try:
        return etree.fromstring(body[:_PARSED], parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _page(body: bytes, url: str, robots_header: str = "") -> _Page:
    tree = parse_tree(body, html=True)
    if tree is None:
        return _Page()
    base, canonical_url, rules = url, "", robots_header.lower()
    links: dict[str, None] = {}
    for element in tree.iter("base", "link", "meta", "a"):
        href = (element.get("href") or "").strip()
        try:
            if element.tag == "meta":
                if (element.get("name") or "").lower() in ("robots", "anaphora"):
                    rules += "," + (element.get("content") or "").lower()
            elif element.tag == "base":
                base = urljoin(url, href)
            elif element.tag == "link":
                if (element.get("rel") or "").lower() == "canonical":
                    canonical_url = canonical(urljoin(base, href))
            elif href and "nofollow" not in (element.get("rel") or "").lower():
                links[canonical(urljoin(base, href))] = None
        except ValueError:
            continue
    if "nofollow" in rules or "none" in rules:
        links = {}
    return _Page(tuple(links), canonical_url, not ("noindex" in rules or "none" in rules))


def _places(body: bytes) -> tuple[list[str], list[str]]:
    """The pages and the further sitemaps that a sitemap names."""
    tree = parse_tree(body, html=False) if body else None
    if tree is None:
        return [], []
    found = [(one.getparent(), (one.text or "").strip()) for one in tree.iter("{*}loc")]
    sitemaps = [text for parent, text in found if parent is not None and str(parent.tag).endswith("}sitemap")]
    return [text for _, text in found if text not in set(sitemaps)], sitemaps
