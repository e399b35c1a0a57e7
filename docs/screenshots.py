"""Take the pictures of the page in `docs/images`: a real server, this documentation, real answers.

    python docs/screenshots.py [--model NAME] [--home FOLDER] [--only chat|workbench]

Models are taken from the home folder; the collection and the database live in a folder of their own
that is thrown away. Needs chromium and `pip install -e '.[dev]'`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from server.settings import default_home

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
QUESTION = "Which address does the server listen on?"
FOLLOW_UP = "And what does it need to listen on another one?"
UNANSWERABLE = "What does a licence cost for fifty people?"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
STARTING = 300
ANSWERING = 900_000


@contextmanager
def running_server(home: Path, model: str, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """`anaphora serve` over this documentation; gives its address once it is ready; `settings` by environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-c", "from cli import main; main()", "--home", str(home), "serve"]
    command += ["--docs", str(DOCS), "--port", str(port), "--model", model]
    # A slow machine gives the same pictures, only later.
    patience = {"ANAPHORA_LLM__TIMEOUT_SECONDS": "900", "PYTHONPATH": str(DOCS.parent)}
    server = subprocess.Popen(command, cwd=home, env={**os.environ, **patience, **(settings or {})})
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + STARTING
        while not _answers(f"{address}/ready"):
            if server.poll() is not None:
                raise SystemExit("The server ended before it was ready; its messages above say why.")
            if time.monotonic() > until:
                raise SystemExit(f"The server was not ready within {STARTING} s.")
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def window(browser: Browser, address: str, size: dict[str, int], *, dark: bool = False, scale: int = 0) -> Page:
    """A window on the page; a narrow one is a phone, of `scale` pixels a point (0: what the size has)."""
    phone = size["width"] < 800
    context = browser.new_context(
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme="dark" if dark else "light",
        device_scale_factor=scale or (2 if phone else 1),
        is_mobile=phone,
        has_touch=phone,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".welcome h1, .turn")
    page.wait_for_timeout(600)
    return page


def ask(page: Page, question: str, *, cited: bool = True) -> None:
    """Ask and wait for the end of the answer."""
    turns = page.locator(".turn").count()
    page.fill("#question", question)
    page.press("#question", "Enter")
    end = f".turn:nth-child({turns + 1}):not([data-state=running])"
    page.wait_for_selector(end, timeout=ANSWERING)
    if cited and page.locator(".turn:last-child .chip").count() == 0:
        raise SystemExit(f"{question!r} was answered without a citation: {page.locator('.turn').last.inner_text()}")


def cite(page: Page) -> None:
    """Open the source of the newest answer's first citation."""
    page.locator(".turn:last-child .chip").first.click()
    page.wait_for_selector(".source.selected")
    page.wait_for_timeout(600)


def keep(page: Page, name: str) -> None:
    """Save what is seen as a small PNG."""
    path = IMAGES / f"{name}.png"
    page.mouse.move(0, 0)
    page.screenshot(path=path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(192, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path.relative_to(DOCS.parent)}: {path.stat().st_size // 1024} KB")


def take(browser: Browser, address: str) -> None:
    """The pictures of the chat, each conversation asked once."""
    page = window(browser, address, WIDE)
    keep(page, "welcome")
    ask(page, QUESTION)
    ask(page, FOLLOW_UP)
    cite(page)
    page.click(".turn:last-child .searched > summary")
    page.locator(".turn:last-child").scroll_into_view_if_needed()
    page.wait_for_timeout(400)
    keep(page, "chat")
    conversation = page.url.removeprefix(address)
    page.close()

    page = window(browser, address + conversation, WIDE, dark=True)
    page.wait_for_selector(".chip")
    cite(page)
    keep(page, "chat-dark")
    page.close()

    page = window(browser, address + conversation, PHONE)
    page.wait_for_selector(".chip")
    page.wait_for_timeout(400)
    keep(page, "phone")
    cite(page)
    keep(page, "phone-sources")
    page.close()


def workbench(browser: Browser, address: str) -> None:
    """Take pictures of the pages of documents and health."""
    context = browser.new_context(viewport={"width": WIDE["width"], "height": WIDE["height"]}, color_scheme="light")
    page = context.new_page()
    for tab, ready in (("documents", "[data-part=list] tbody tr"), ("health", "figure svg")):
        page.goto(f"{address}/workbench/{tab}")
        page.wait_for_selector(ready)
        page.wait_for_timeout(600)
        keep(page, f"workbench-{tab}")
    context.close()


def review(browser: Browser, address: str) -> None:
    """The pictures of the workbench, over turns that are asked for it."""
    page = window(browser, address, WIDE)
    ask(page, QUESTION)
    ask(page, FOLLOW_UP, cited=False)
    page.click(".turn:last-child [data-rating=down][data-action=rate]")
    ask(page, UNANSWERABLE, cited=False)
    page.goto(f"{address}/workbench/review")
    page.wait_for_selector(".one:not([hidden])")
    page.locator(".turns button", has_text=FOLLOW_UP).click()
    page.wait_for_selector(f"[data-part=asked]:has-text('{FOLLOW_UP}')")
    page.fill("#rewrite", "What does the server need to listen on another address than loopback?")
    page.press("#rewrite", "Enter")
    page.wait_for_selector("[data-part=rows] li")
    page.keyboard.press("1")
    page.wait_for_selector(".passages li:first-child :checked")
    page.wait_for_timeout(400)
    keep(page, "workbench-review")
    page.close()


def main() -> None:
    """Read the arguments, serve, look, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b-instruct", help="what answers, as for `anaphora serve`")
    parser.add_argument("--home", type=Path, default=default_home(), help="the home folder that has the models")
    parser.add_argument("--only", choices=("chat", "workbench"), help="take these pictures alone")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        models = arguments.home / "models"
        models.mkdir(parents=True, exist_ok=True)
        (home / "models").symlink_to(models)
        with running_server(home, arguments.model) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
            if arguments.only != "workbench":
                take(browser, address)
            if arguments.only != "chat":
                workbench(browser, address)
                review(browser, address)
            browser.close()


if __name__ == "__main__":
    main()
