"""A web site is read politely, and nothing private is reached by way of it."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from plugins.sources.fetcher import Fetcher
from plugins.sources.mirror import SourceMirror, SyncReport
from plugins.sources.source import Guard, Source, SourceError
from plugins.sources.tests.connector import opened
from plugins.sources.web import canonical
from server.guarded_http import system_addresses
from tests.web_site import FakeSite, Page, answer, serving


@pytest.fixture
def site() -> Iterator[FakeSite]:
    with FakeSite() as site:
        site.html("/docs/", "<h1>Start</h1><p>Everything begins here.</p>", "a.html", "b/")
        site.html("/docs/a.html", "<h1>A</h1><p>Send the form by fax.</p>", "/docs/", "c.html")
        site.html("/docs/b/", "<h1>B</h1><p>Or by mail.</p>")
        site.html("/docs/c.html", "<h1>C</h1><p>It costs nothing.</p>", "d.html")
        site.html("/docs/d.html", "<h1>D</h1><p>Deep down.</p>")
        yield site


@pytest.fixture
def mirror(tmp_path: Path) -> SourceMirror:
    return SourceMirror(tmp_path, "site")


def crawl(mirror: SourceMirror, site: FakeSite, **options: Any) -> SyncReport:
    location, max_bytes = options.pop("location", f"{site.url}/docs/"), options.pop("max_bytes", 100_000)
    mirror.write(Source(name="site", collection="docs", kind="web", location=location, **{"delay": 0, **options}))
    pauses.clear()
    with opened(mirror.source, mirror.cache, max_bytes) as connector:
        return mirror.sync(connector.items(mirror.known(), pauses.append), complete=connector.lists_all)


pauses: list[float] = []


def paths(mirror: SourceMirror) -> set[str]:
    return {key.partition("/docs/")[2] for key, document in mirror.state.documents.items() if document.path}


def asked(site: FakeSite) -> list[str]:
    requested = [path for path, _ in site.asked if path.startswith("/docs/")]
    site.asked.clear()
    return requested


def test_links_are_followed_to_a_depth_and_unchanged_pages_are_not_sent_again(
    mirror: SourceMirror, site: FakeSite
) -> None:
    crawl(mirror, site, depth=2)
    assert paths(mirror) == {"", "a.html", "b/", "c.html"}
    assert all("anaphora" in agent for agent in site.agents)
    document = mirror.state.documents[f"{site.url}/docs/b/"]
    assert (document.path, document.url) == ("site/docs/b.html", f"{site.url}/docs/b/")
    site.asked.clear()
    site.html("/docs/b/", "<h1>B</h1><p>By mail alone.</p>")
    report = crawl(mirror, site, depth=2)
    statuses = dict(site.asked)
    assert (statuses["/docs/a.html"], statuses["/docs/b/"]) == (304, 200)
    assert [(change.outcome, change.key) for change in report.changes] == [("changed", f"{site.url}/docs/b/")]


def test_a_crawl_that_was_cut_short_goes_on_though_its_pages_are_unchanged(
    mirror: SourceMirror, site: FakeSite
) -> None:
    crawl(mirror, site, pages=2)
    assert len(paths(mirror)) == 2
    crawl(mirror, site)
    assert paths(mirror) == {"", "a.html", "b/", "c.html", "d.html"}


def test_sitemaps_name_pages_that_nothing_links_to(mirror: SourceMirror, site: FakeSite) -> None:
    site.html("/docs/hidden.html", "<h1>Hidden</h1><p>Only the sitemap knows.</p>")
    site.html("/blog/post.html", "Not below the prefix.")
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    site.pages["/robots.txt"] = Page(f"Sitemap: {site.url}/index.xml".encode(), "text/plain")
    site.pages["/index.xml"] = Page(
        f"<sitemapindex {space}><sitemap><loc>{site.url}/pages.xml</loc></sitemap></sitemapindex>".encode()
    )
    named = (f"{site.url}/docs/hidden.html", f"{site.url}/blog/post.html", "http://example.org/docs/x.html")
    site.pages["/pages.xml"] = Page(
        f"<urlset {space}>{''.join(f'<url><loc>{url}</loc></url>' for url in named)}</urlset>".encode()
    )
    crawl(mirror, site, depth=0)
    assert paths(mirror) == {"", "hidden.html"}
    site.pages["/pages.xml"] = Page(b"")
    report = crawl(mirror, site, depth=0)
    assert "deleted" not in report.counts
    assert "hidden.html" in paths(mirror), "a sitemap that is empty all at once deletes nothing"


def test_robots_txt_is_obeyed_its_delay_too(mirror: SourceMirror, site: FakeSite) -> None:
    rules = b"User-agent: anaphora\nDisallow: /docs/a.html\nCrawl-delay: 3\n"
    site.pages["/robots.txt"] = Page(rules, "text/plain")
    crawl(mirror, site)
    assert paths(mirror) == {"", "b/"}
    assert set(pauses) == {0, 3.0}
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n", "text/plain")
    asked(site)
    assert "does not allow" in crawl(mirror, site).problem
    assert asked(site) == []
    assert paths(mirror) == {"", "b/"}


@pytest.mark.parametrize("status", [500, 503, 403])
def test_without_robots_txt_nothing_is_asked_for(mirror: SourceMirror, site: FakeSite, status: int) -> None:
    crawl(mirror, site)
    asked(site)
    site.pages["/robots.txt"] = Page(status=status)
    assert f"HTTP {status}" in crawl(mirror, site).problem
    assert asked(site) == []
    assert len(paths(mirror)) == 5


def test_pages_go_when_the_site_says_so(mirror: SourceMirror, site: FakeSite) -> None:
    crawl(mirror, site)
    site.pages["/docs/b/"].status = 410
    site.html("/docs/c.html", "C", head='<meta name="robots" content="noindex">')
    site.pages["/docs/d.html"] = Page(status=301, headers={"Location": "/docs/new.html"})
    site.html("/docs/new.html", "<h1>D</h1><p>Deep down.</p>")
    crawl(mirror, site)
    assert paths(mirror) == {"", "a.html", "d.html", "new.html"}, "what moved is kept until its new place is read"
    crawl(mirror, site)
    assert paths(mirror) == {"", "a.html", "new.html"}


@pytest.mark.parametrize("why", ["error", "login", "gone home", "dies", "picture"])
def test_pages_that_only_fail_stay_with_their_error(mirror: SourceMirror, site: FakeSite, why: str) -> None:
    crawl(mirror, site)
    place = "/docs/b/"
    match why:
        case "error":
            site.pages[place].status = 500
        case "login":
            site.pages[place] = Page(status=302, headers={"Location": "/login"})
            site.html("/login", "Sign in.")
        case "gone home":
            site.pages["/docs/"].status = 404
            site.pages[place].status = 404
        case "dies":
            site.dies.add(place)
        case "picture":
            site.pages[place] = Page(b"\x89PNG", "image/png")
    report = crawl(mirror, site)
    assert "deleted" not in report.counts
    assert len(paths(mirror)) == 5
    document = mirror.state.documents[f"{site.url}{place}"]
    assert document.problem or report.problem


def test_a_server_that_dies_half_way_deletes_nothing_and_is_left_in_peace(mirror: SourceMirror, site: FakeSite) -> None:
    for number in range(9):
        site.html(f"/docs/{number}.html", f"<p>Page {number}.</p>")
    site.html("/docs/", "Start", *(f"{number}.html" for number in range(9)), "a.html")
    crawl(mirror, site)
    before = paths(mirror)
    del site.pages["/docs/3.html"]
    site.dies = {f"/docs/{number}.html" for number in range(9)}
    asked(site)
    report = crawl(mirror, site)
    assert "The rest was not looked at" in report.problem
    assert len(asked(site)) < 8
    assert paths(mirror) == before


def test_a_page_is_known_by_its_canonical_address_alone(mirror: SourceMirror, site: FakeSite) -> None:
    site.html("/docs/", "Start", "a.html#part", "a.html?utm_source=x", "print.html", "http://example.org/docs/")
    site.html("/docs/print.html", "A", head='<link rel="canonical" href="/docs/a.html">')
    site.html("/docs/b/", "B", head='<link rel="canonical" href="http://example.org/">')
    crawl(mirror, site)
    assert paths(mirror) == {"", "a.html", "c.html", "d.html"}
    assert canonical("HTTP://Example.org:80/a/../b?x=1&utm_medium=y#z") == "http://example.org/b?x=1"
    assert canonical("javascript:alert(1)") == canonical("http://u:p@example.org/") == ""


def test_character_sets_of_headers_are_kept_and_large_or_hostile_pages_do_no_harm(
    mirror: SourceMirror, site: FakeSite
) -> None:
    site.pages["/docs/a.html"] = Page("<p>Grüße</p>".encode("latin-1"), "text/html; charset=ISO-8859-1")
    site.pages["/docs/b/"] = Page(b"x" * 200_000)
    body = b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>&f;</loc></url></urlset>'
    site.pages["/sitemap.xml"] = Page(body, "text/xml")
    report = crawl(mirror, site)
    document = mirror.state.documents[f"{site.url}/docs/a.html"]
    assert "Grüße" in (mirror.files / document.path).read_text("utf-8-sig")
    assert [change.key for change in report.changes if change.outcome == "failed"] == [f"{site.url}/docs/b/"]


@pytest.mark.extended
def test_a_site_that_names_pages_without_end_fills_no_memory(mirror: SourceMirror, site: FakeSite) -> None:
    for number in range(10):
        site.html(f"/docs/{number}.html", "Links.", *(f"{number}-{n}-{'x' * 900}.html" for n in range(1500)))
    site.html("/docs/", "Start", *(f"{number}.html" for number in range(10)))
    tracemalloc.start()
    try:
        crawl(mirror, site, pages=12, max_bytes=4_000_000)
        assert tracemalloc.get_traced_memory()[1] < 13 << 20
    finally:
        tracemalloc.stop()
    assert {f"{number}.html" for number in range(10)} <= paths(mirror)


Fetch = Callable[..., Fetcher]


@pytest.fixture
def fetcher() -> Iterator[Fetch]:
    with ExitStack() as opened:
        yield lambda resolve=None, *private: opened.enter_context(
            closing(Fetcher(Guard(frozenset(private), resolve or system_addresses), 1000))
        )


def test_private_hosts_are_not_asked_unless_they_are_named(site: FakeSite, fetcher: Fetch) -> None:
    others = ("localhost", "0x7f000001", "2130706433", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]")
    for url in (site.url, *(f"http://{host}:{site.port}" for host in others)):
        with pytest.raises(SourceError, match=r"private address|cannot be"):
            fetcher().get(url)
    for url in ("file:///etc/passwd", "ftp://example.org/", "http://u:p@example.org/", "gopher://127.0.0.1/"):
        with pytest.raises(SourceError, match="not followed"):
            fetcher().get(url)
    assert site.asked == []
    assert fetcher(None, "127.0.0.1").get(f"{site.url}/docs/").status == 200


def test_every_redirect_is_checked_anew(site: FakeSite, fetcher: Fetch) -> None:
    inner: list[str] = []

    def private(request: Any) -> None:
        inner.append(request.path)
        answer(request, 200, b"secret")

    with serving(private) as port:
        site.pages["/go"] = Page(status=302, headers={"Location": f"http://localhost:{port}/latest/meta-data"})
        site.pages["/scheme"] = Page(status=302, headers={"Location": "file:///etc/passwd"})
        site.pages["/loop"] = Page(status=302, headers={"Location": "/loop"})
        for path, message in (("/go", "private address"), ("/scheme", "not followed"), ("/loop", "redirects")):
            with pytest.raises(SourceError, match=message):
                fetcher(None, "127.0.0.1").get(f"{site.url}{path}")
    assert inner == []


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "deflate"])
def test_a_few_bytes_that_stand_for_many_are_not_unpacked(site: FakeSite, fetcher: Fetch, coding: str) -> None:
    bomb = gzip.compress(gzip.compress(bytes(64 << 20)) if "," in coding else bytes(64 << 20))
    site.pages["/bomb"] = Page(bomb, headers={"Content-Encoding": coding})
    site.pages["/fine"] = Page(gzip.compress(b"<p>Packed.</p>"), headers={"Content-Encoding": "gzip"})
    site.pages["/cut"] = Page(gzip.compress(b"<p>Packed.</p>")[:-9], headers={"Content-Encoding": "gzip"})
    site.pages["/none"] = Page(b"<p>Not packed.</p>", headers={"Content-Encoding": "gzip"})
    get = fetcher(None, "127.0.0.1").get
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match=r"not read to its end|not asked for"):
            get(f"{site.url}/bomb")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert get(f"{site.url}/fine").body == b"<p>Packed.</p>"
    with pytest.raises(SourceError, match="cut off"):
        get(f"{site.url}/cut")
    with pytest.raises(SourceError, match="cannot be read"):
        get(f"{site.url}/none")


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"])
def test_a_server_that_sends_single_bytes_for_ever_is_left(
    fetcher: Fetch, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr("plugins.sources.fetcher._WHOLE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                connection.sendall(beginning)
                while not over.wait(0.05):
                    connection.sendall(b"x")

        over, thread = threading.Event(), threading.Thread(target=dribble)
        thread.start()
        try:
            with pytest.raises(SourceError, match=r"too long|timed out"):
                fetcher(None, "127.0.0.1").get(f"http://127.0.0.1:{server.getsockname()[1]}/")
        finally:
            over.set()
            thread.join()


def test_validators_depth_and_digest_are_what_a_version_is(mirror: SourceMirror, site: FakeSite) -> None:
    crawl(mirror, site)
    versions = {key.partition("/docs/")[2]: json.loads(item.version) for key, item in mirror.state.documents.items()}
    assert [versions[name][2] for name in ("", "a.html", "c.html", "d.html")] == [0, 1, 2, 3]
