"""Ten conversations of visitors on a real documentation site: build it, serve it with the widget, ask in a browser.

    python benchmarks/site_conversations.py DATA/product_docs/fastapi/fastapi HOME OUT

MkDocs builds the folder into OUT/site with the widget as its README says. HOME holds the models; the folder is indexed
there as `fastapi`. Prints each turn with its status and the first words of its answer, what axe finds, and errors of
the chat. OUT gets pictures on a desktop and a phone, light and dark, and right to left.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from server.api.app import Server, address, create_app, listen
from server.chat import open_service
from server.settings import Settings
from server.store import credentials
from ui import mount

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CONVERSATIONS = """
tutorial/first-steps/ | desktop | How do I run the development server? | And in production? | which port does it use?
tutorial/path-params/ | desktop | How do I declare one with a type? | What if the value is not an integer?
tutorial/query-params/ | phone | how do I make this optional? | and required? | can it have a default
tutorial/body/ | dark | What is Pydantic used for here? | Can I mix it with path parameters?
tutorial/dependencies/ | desktop | Can a dependency use yield? | When is the code after it run? | what about exceptions
tutorial/security/ | phone | How do I hash passwords? | Which library?
advanced/events/ | dark | How do I run code on startup? | and on shutdown? | Is the old way still supported?
deployment/docker/ | desktop | How do I build an image? | How many workers should I use? | with Kubernetes?
tutorial/testing/ | rtl | How do I test my app? | and async tests?
. | desktop | Does FastAPI have a built-in admin interface like Django? | I want to talk to a human
"""
"""A page, a look, and questions."""
LOOKS: dict[str, dict[str, object]] = {
    "desktop": {"viewport": {"width": 1280, "height": 860}},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}, "has_touch": True, "device_scale_factor": 2},
    "rtl": {"viewport": {"width": 1280, "height": 860}},
}


ARABIC = """new MutationObserver((_, seen) => {
  if (!document.documentElement) return;
  Object.assign(document.documentElement, { lang: "ar", dir: "rtl" });
  seen.disconnect();
}).observe(document, { childList: true })"""


def build(docs: Path, out: Path, script: str) -> None:
    """Build the site of a folder; each language of a picker gets an address of its own script."""
    theme = {"name": "material", "font": False, "palette": [
        {"media": "(prefers-color-scheme: light)", "scheme": "default"},
        {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
    ]}  # fmt: skip
    extensions = ["admonition", "attr_list", "tables", "pymdownx.superfences", "pymdownx.highlight", "pymdownx.details"]
    extensions += [f"pymdownx.blocks.{name}" for name in ("admonition", "details", "tab")]
    config = {"site_name": "FastAPI", "docs_dir": str(docs.resolve()), "site_dir": str(out / "site"), "theme": theme}
    text = yaml.safe_dump({**config, "markdown_extensions": extensions, "extra_javascript": [script]})
    (out / "mkdocs.yml").write_text(text, "utf-8")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(out / "mkdocs.yml")], check=True)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@contextlib.contextmanager
def served(settings: Settings, docs: Path) -> Iterator[dict[str, Any]]:
    """Index the folder, serve the API and the widget; yield the address, a key, and the service with its loop."""
    begun, held = threading.Event(), dict[str, Any]()

    async def run() -> None:
        async with open_service(settings) as service:
            job = await service.collections.index_paths(settings.collection, [docs])
            while not (job := await service.admin.job(job.id)).finished:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            make = partial(credentials.create_key, groups=frozenset({"default"}))
            _, key = await service.core.database.write(partial(make, name="site", role="visitor"))
            app = create_app(service, settings)
            mount(app, service)
            sock = listen(settings.server)
            server = Server(app, settings.server)
            held.update(url=address(sock), key=key, service=service, loop=asyncio.get_running_loop(), server=server)
            begun.set()
            await server.serve(sockets=[sock])

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait()
    try:
        yield held
    finally:
        held["server"].should_exit = True
        thread.join()


def converse(browser: Browser, site: str, out: Path) -> None:
    """Have the conversations, and print them."""
    from axe_playwright_python.sync_playwright import Axe

    for n, line in enumerate(CONVERSATIONS.strip().splitlines(), start=1):
        path, look, *questions = line.split(" | ")
        context = browser.new_context(**LOOKS[look])  # type: ignore[arg-type]
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error, to=errors: to.append(str(error)))
        page.on("console", lambda said, to=errors: said.type == "error" and to.append(said.location["url"]))
        if look == "rtl":
            page.add_init_script(ARABIC)
        page.goto(f"{site}/{path}")
        page.locator("body > button[aria-expanded]").click()
        frame = page.frame_locator("body > iframe")
        print(f"\n{n}. {path or '/'} ({look}), about: {frame.locator('#page').inner_text()}")
        for at, question in enumerate(questions, start=1):
            began = time.monotonic()
            frame.locator("#question").fill(question)
            frame.locator("#question").press("Enter")
            turn = frame.locator(f"article:nth-child({at})[data-state]")
            turn.wait_for(timeout=60_000)
            links = turn.locator(".card > a").evaluate_all("all => all.map((a) => a.href)")
            answer = " ".join(turn.locator(".answer").inner_text().split())
            state = turn.get_attribute("data-state")
            print(f"   {question} → {state}, {time.monotonic() - began:.1f} s\n      {answer[:300]}\n      {links[:1]}")
        page.screenshot(path=str(out / f"{n:02}-{look}.png"))
        inner = next(one for one in page.frames if "/widget" in one.url)
        inner.evaluate("document.querySelectorAll('details.card').forEach((box) => { box.open = true; })")
        serious = [v["id"] for v in Axe().run(inner).response["violations"] if v["impact"] in ("serious", "critical")]
        own = [error for error in errors if not error.startswith((f"{site}/", "https://"))]
        print(f"   axe, serious: {serious}; errors: {own}")
        context.close()


def main(docs: Path, home: Path, out: Path) -> None:
    """Run it."""
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    (out / "site").mkdir(exist_ok=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(out / "site"))) as web:
        site = f"http://127.0.0.1:{web.server_port}"
        threading.Thread(target=web.serve_forever, daemon=True).start()
        settings = Settings.model_validate({
            "home": home, "llm": {"model": "none"}, "server": {"port": 0}, "collection": "fastapi",
            "index": {"site_urls": {str(docs.resolve()): site}},
            "plugins": {
                "widget": {"origins": [site], "visitor_per_minute": 0, "address_per_minute": 0},
                "curated": {"enabled": True},
                "handoff": {"kind": "webhook", "address": "http://127.0.0.1:9/", "secret": "s"},
            },
        })  # fmt: skip
        with served(settings, docs) as held, sync_playwright() as playwright:
            build(docs, out, f"{held['url']}/widget.js?key={held['key']}&collection=fastapi")
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            converse(browser, site, out)
            browser.close()
        web.shutdown()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
