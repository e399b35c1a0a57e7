"""Record `docs/images/follow-ups.webp`: three turns in the real page, beside a chat that searches the words as typed.

    python docs/recording.py [--home FOLDER]

Both chats are the same program over this documentation, answering in quotes. The left one has no rewriter, no
cross-encoder and one query, the typed words, ranked by meaning: a plain RAG chat. There is a light picture and a dark
one. Models are taken from the home folder; everything else lies in folders that are thrown away. Needs chromium and
`pip install -e '.[dev]'`.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from screenshots import DOCS, IMAGES, QUIET, ask, running_server, window

from server.settings import default_home
from server.settings.profile import packaged_profile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TURNS = ("Can it read scanned pages?", "how long does it take?", "which languages does it know?")
TITLES = ("A plain RAG chat: searches the words as typed", "Anaphora: searches with the conversation")
SIZE = {"width": 480, "height": 660}
STRIP, GAP = 44, 8
TYPED, READ, LAST = 110, 3600, 5200
"""Milliseconds of a frame while a question is typed, of an answer, and of the last answer."""
PIECE = 5
"""Characters that are typed between two frames."""
HIDDEN = ".latest, .turn .actions .meta { visibility: hidden }"
"""The button to scroll, and the seconds of an answer, which are those of the machine that records."""
STYLED = """css => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    document.adoptedStyleSheets.push(sheet);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=default_home(), help="the home folder that has the models")
    models = parser.parse_args().home / "models"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("chromium is not installed; on Debian: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        addresses = [stack.enter_context(running_server(*of)) for of in homes(Path(folder), models)]
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=chromium, args=QUIET)
        for dark in (False, True):
            save(*record(browser, addresses, dark=dark), "follow-ups-dark" if dark else "follow-ups")
        browser.close()


def homes(folder: Path, models: Path) -> list[tuple[Path, str, dict[str, str]]]:
    """The home, the model and the settings of the plain chat and of Anaphora, the documentation indexed once."""
    plain, ours = folder / "plain", folder / "ours"
    ours.mkdir()
    (ours / "models").symlink_to(models.absolute())
    command = [sys.executable, "-P", "-c", "from cli import main; main()", "--home", str(ours), "index", str(DOCS)]
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    subprocess.run([*command, "--collection", "docs"], check=True, env=environment)
    shutil.copytree(ours, plain, symlinks=True)
    # A busy machine gives the same picture, only later.
    patient = packaged_profile().model_copy(update={"rerank_seconds": 600.0})
    weights = {f"{name}.{ranking}": 0.0 for name, of in patient.variants.model_dump().items() for ranking in of}
    typed = patient.weighed({**weights, "typed.dense": 1.0})
    (ours / "profile.toml").write_text(patient.toml(), "utf-8")
    (plain / "profile.toml").write_text(
        typed.model_copy(update={"clarity": 0.0, "document_prior": 0.0}).toml(), "utf-8"
    )
    without = {"ANAPHORA_REWRITER__KIND": "none", "ANAPHORA_RETRIEVAL__RERANK": "never"}
    return [
        (home, "none", {"ANAPHORA_RETRIEVAL__PROFILE": str(home / "profile.toml"), **settings})
        for home, settings in ((plain, without), (ours, {}))
    ]


def record(browser: Browser, addresses: list[str], *, dark: bool) -> tuple[list[Image.Image], list[int]]:
    """Ask every question in both chats; the frames, and milliseconds of each."""
    pages = [window(browser, address, SIZE, dark=dark, scale=1) for address in addresses]
    for page in pages:
        page.evaluate(STYLED, HIDDEN)
    head = titles(browser, dark=dark)
    frames, times = [], []

    def keep(milliseconds: int) -> None:
        frames.append(joined(head, [picture(page) for page in pages]))
        times.append(milliseconds)

    for question in TURNS:
        for end in range(PIECE, len(question) + PIECE, PIECE):
            for page in pages:
                page.fill("#question", question[:end])
            keep(TYPED)
        times[-1] = 5 * TYPED
        for page in pages:
            ask(page, question, cited=False)
            page.locator(".turn:last-child").evaluate("turn => turn.scrollIntoView({block: 'start'})")
            page.wait_for_timeout(500)
        keep(READ)
    times[-1] = LAST
    for page in pages:
        page.context.close()
    return frames, times


def picture(page: Page) -> Image.Image:
    """What a page shows."""
    return Image.open(io.BytesIO(page.screenshot(caret="hide", animations="disabled"))).convert("RGB")


def titles(browser: Browser, *, dark: bool) -> Image.Image:
    """The strip above the two chats."""
    width = 2 * SIZE["width"] + GAP
    colours = ("#8b949e", "#2dd4bf", "#0d1117") if dark else ("#57606a", "#0f766e", "#ffffff")
    page = browser.new_page(viewport={"width": width, "height": STRIP})
    cells = "".join(
        f'<b style="position:absolute;left:{place * (SIZE["width"] + GAP) + 12}px;color:{colour}">{title}</b>'
        for place, (title, colour) in enumerate(zip(TITLES, colours, strict=False))
    )
    page.set_content(f'<body style="margin:0;background:{colours[2]};font:15px/{STRIP}px sans-serif">{cells}')
    strip = picture(page)
    page.close()
    return strip


def joined(head: Image.Image, chats: list[Image.Image]) -> Image.Image:
    """The titles over both chats, side by side."""
    frame = Image.new("RGB", (head.width, STRIP + SIZE["height"]), head.getpixel((0, 0)))
    frame.paste(head, (0, 0))
    for place, chat in enumerate(chats):
        frame.paste(chat, (place * (SIZE["width"] + GAP), STRIP))
    return frame


def save(frames: list[Image.Image], times: list[int], name: str) -> None:
    """Write an animated picture that begins anew at its end."""
    path = IMAGES / f"{name}.webp"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=80, method=6)
    print(f"{path.relative_to(DOCS.parent)}: {path.stat().st_size // 1024} KB, {len(frames)} frames")


if __name__ == "__main__":
    main()
