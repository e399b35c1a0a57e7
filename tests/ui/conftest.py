"""A real browser, a real server over a few documents, and a page that notes everything suspicious."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from tests.openai_server import FakeOpenAIServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.ui.site import Site

DESCALING = """# Kettle care

## Descale the kettle

Descale the kettle every three months. Hard water needs it every six weeks.
Fill it with one part vinegar and two parts water, and boil it once.

## Turn off the alarm

The alarm beeps when the kettle is dry. To turn the alarm off, hold the lid button for five seconds.

![The lid button](images/lid.png)

## Replace the filter

| Part | Lasts |
|---|---|
| Filter | one year |
| Seal | four years |

## What does the lid seal keep in?

The lid seal keeps the steam in.
"""

VALVE = """# Steam

## Set the valve

However, we set the SRV to 4 bar (see Table 2).

## Parts of the boiler

The safety release valve (SRV) opens by itself.

## Elsewhere

More of this stands in other books.

## In a hurry?

Skip ahead.

## Section 0

Nothing.
"""

WARRANTY = """# Warranty

## Claim a repair

Send the form W-17 with the receipt within two years of purchase. Repairs are free in that time.

## Change the address

A new address is registered by calling the service line.
"""

MOTHS = "# Moths\n\nMoths love light: see [there](kettle.md#turn-off-the-alarm).\n"

CITING = (
    "Lamps are lit at dusk. The pump is oiled every year [2].", "References", "[1] Ada Wick. 1990. On oil. In Lamps.",
    "[2] Bea Stone. 2001. Care of the pump. In Pumps.", "[3] Cy Moth. 2004. <b>Night</b>. In Lamps.",
)  # fmt: skip

POISON = """# Teapot <script>window.owned = "title"</script>

## Glaze <img src=x onerror="window.owned='heading'">

The glaze of the teapot is lead free. <script>window.owned = "script"</script>
<img src="https://evil.invalid/pixel.png" onerror="window.owned = 'onerror'">
<svg onload="window.owned = 'svg'"><iframe src="https://evil.invalid/frame"></iframe>
<form action="https://evil.invalid/form"><input name="secret"><button>Send</button></form>
<meta http-equiv="refresh" content="0;url=https://evil.invalid/refresh">
<style>body { background: url(https://evil.invalid/style.png) }</style>
<link rel="stylesheet" href="https://evil.invalid/sheet.css"><base href="https://evil.invalid/">
![pixel](https://evil.invalid/markdown.png) [press here](javascript:window.owned='link')
${window.owned='template'} {{window.owned='handlebars'}} `${window.owned='backtick'}`
"""

POISONED_ANSWER = (
    "The glaze is lead free [[lead free]]. <script>window.owned='answer'</script> "
    "<img src=https://evil.invalid/a.png onerror=window.owned='answer-img'> ![p](https://evil.invalid/b.png) "
    "<iframe src=https://evil.invalid/c> <form action=https://evil.invalid/d> <svg onload=window.owned='answer-svg'> "
    "[press](javascript:window.owned='answer-link') <style>*{background:url(https://evil.invalid/e)}</style> "
    "${window.owned='answer-template'} <meta http-equiv=refresh content=0;url=https://evil.invalid/f> "
    "<img src='https://evil.invalid/unterminated"
)

ANSWERS = {
    "How often": "Descale the kettle every three months [[Descale the kettle every]]. It also sings in the morning.",
    "turn": "Hold the lid button for five seconds [[hold the lid button]].",
    "form": "Send the form W-17 with the receipt [[form W-17]].",
    "bar": "We set the SRV to 4 bar [[set the SRV to 4]].",
    "glaze": POISONED_ANSWER,
    "saucer": "The saucer is made of oak [[made of oak]].",
    "tale": "".join(f"Once upon a time there was kettle {n} [[kettle]]. " for n in range(5)),
    "story": "Once upon a time there was a kettle [[kettle]]. It",
}

SENTENCES = threading.Semaphore(0)
"""Each release lets a tale go on by a sentence."""


def answer(request: dict[str, Any]) -> Iterator[str]:
    """The words of the answer whose key the question holds; a tale waits before each sentence, a story for its reader
    to leave.

    `[[some words]]` in it becomes the number of the passage of the prompt that holds them, as a model would cite it.
    """
    prompt = str(request["messages"][-1]["content"])
    found = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)
    question = found[1] if found else prompt
    passages = [(passage.start(), passage[1]) for passage in re.finditer(r"^\[(\d+)\] ", prompt, re.MULTILINE)]

    def number(cited: re.Match[str]) -> str:
        at = prompt.find(cited[1])
        return next((f"[{n}]" for start, n in reversed(passages) if start < at), "[99]")

    key, text = next(((key, text) for key, text in ANSWERS.items() if key in question), ("", "<cannot_answer>"))
    for word in re.findall(r"\S+\s*", re.sub(r"\[\[(.+?)\]\]", number, text)):
        if key == "tale" and word == "Once ":
            SENTENCES.acquire(timeout=90)
        yield word
    if key == "story":
        threading.Event().wait(600)


@pytest.fixture(scope="module")
def site(model_home: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A whole server over the documents above, one of them poisoned; `SETTINGS` of a module is its settings file."""
    from tests.ui.site import running_site

    home, documents = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("documents")
    (home / "models").symlink_to(model_home / "models")
    (home / "anaphora.toml").write_text(getattr(request.module, "SETTINGS", ""), encoding="utf-8")
    pages = {"kettle.md": DESCALING, "valve.md": VALVE, "warranty.md": WARRANTY, "teapot.md": POISON, "moths.md": MOTHS}
    for name, text in pages.items():
        (documents / name).write_text(text, encoding="utf-8")
    (documents / "images").mkdir()
    Image.new("RGB", (40, 30), "teal").save(documents / "images" / "lid.png")
    canvas = Canvas(str(documents / "pump.pdf"), pagesize=(420, 594))
    canvas.setTitle("Care of the pump")
    for n, line in enumerate(("The pump of the kettle.", "The pump is oiled once a year.", "It is turned by hand.")):
        canvas.drawString(60 + 20 * n, 500 - 90 * n, line)
    canvas.save()
    canvas = Canvas(str(documents / "lamps.pdf"), pagesize=(420, 594))
    canvas.setTitle("Lamps")
    for n, line in enumerate(CITING):
        canvas.setFont("Helvetica-Bold" if line == "References" else "Helvetica", 11)
        canvas.drawString(60, 500 - 30 * n, line)
    canvas.save()
    with FakeOpenAIServer(pieces=answer, pace=0.01) as llm, running_site(home, documents, llm.url) as running:
        yield running


LEAVING = """addEventListener("beforeunload", () => {
  console.error = () => {};
  addEventListener("unhandledrejection", (event) => event.preventDefault());
});"""
"""Gradio's client reports the streams that it breaks off itself while a page is being left."""


def record_complaints(page: Page) -> list[str]:
    """The errors that the page and its console report from now on; call it before the page opens an address."""
    complaints: list[str] = []
    page.add_init_script(LEAVING)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


class Visitor:
    """A person with a browser window; notes what a harmless page never does."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.page: Page = context.new_page()
        self.foreign: list[str] = []
        self.complaints = record_complaints(self.page)
        self.page.on("request", lambda request: self._note_request(request.url))
        self.open()

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.foreign.append(url)

    def open(self, path: str = "/") -> None:
        self.page.goto(self.address + path)
        self.page.wait_for_selector(".welcome h1, .turn")

    def ask(self, question: str, state: str = "answered") -> None:
        """Type a question, press Enter, and wait until its turn has reached `state`."""
        before = self.page.locator(".turn").count()
        self.page.fill("#question", question)
        self.page.press("#question", "Enter")
        self.page.wait_for_selector(f".turn:nth-child({before + 1})[data-state={state}]")

    def last(self, selector: str) -> str:
        """The visible text of `selector` in the last turn."""
        return self.page.locator(f".turn:last-child {selector}").first.inner_text()


@pytest.fixture
def visitor(browser: Browser, site: Site) -> Iterator[Visitor]:
    """A window on the page; afterwards nothing suspicious may have happened in it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, service_workers="block")
    person = Visitor(context, site.address)
    yield person
    owned = person.page.evaluate("window.owned")
    context.close()
    assert owned is None
    assert person.foreign == []
    assert person.complaints == []
