"""Build a small site with Sphinx, VitePress or Docusaurus, the widget in it as its README says, and ask in a browser.

    python benchmarks/site_tools.py TOOL FOLDER HOME OUT

TOOL is `sphinx`, with FOLDER a virtual environment that has `sphinx` and `furo`; `vitepress`, with FOLDER one where
`npm install vitepress` was done; or `docusaurus`, the same with `@docusaurus/core @docusaurus/preset-classic react
react-dom`. HOME holds the models. Prints what the chat says it is about, before and after a link of the site is
followed, the answers, their links, and what axe finds. OUT gets the site and a picture, TOOL.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import sync_playwright
from site_conversations import Quiet, served

from server.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAGES = {
    "alerts": (
        "Alerting rules",
        "A rule sends a message when a value passes its limit.",
        "Turn a rule off",
        "Set `enabled: false` in the rule, and no message is sent any more.",
    ),
    "backups": (
        "Backups",
        "A backup is made every night and kept for thirty days.",
        "Turn backups off",
        "Remove the line `backup: nightly` from the settings, and no backup is made.",
    ),
}
"""Title, text, heading and text by name."""
QUESTION = "How do I turn this off?"
VITEPRESS = """export default {{
  title: "Towers",
  head: [["script", {{ src: "{script}", async: "", "data-key": "{key}", "data-collection": "{collection}" }}]],
}};
"""
DOCUSAURUS = """export default {{
  title: "Towers", url: "{site}", baseUrl: "/", onBrokenLinks: "ignore",
  presets: [["classic", {{ docs: {{ sidebarPath: undefined }}, blog: false }}]],
  scripts: [{{ src: "{script}", async: true, "data-key": "{key}", "data-collection": "{collection}" }}],
}};
"""
SPHINX = """project = "Towers"
html_theme = "furo"
import sys
sys.path.insert(0, "{client}")
extensions = ["anaphora_client.sphinx"]
anaphora = {{"server": "{server}", "key": "{key}", "attributes": {{"collection": "{collection}"}}}}
"""


def write_pages(folder: Path, tool: str) -> None:
    """Write the documents, and an index that links to them."""
    folder.mkdir(parents=True)
    for name, (title, text, heading, more) in PAGES.items():
        if tool == "sphinx":
            rest = f"{title}\n{'=' * len(title)}\n\n{text}\n\n{heading}\n{'-' * len(heading)}\n\n{more}\n"
            (folder / f"{name}.rst").write_text(rest.replace("`", "``"), "utf-8")
        else:
            links = "\n".join(f"- [{other[0]}](./{file}.md)" for file, other in PAGES.items())
            (folder / f"{name}.md").write_text(f"# {title}\n\n{text}\n\n## {heading}\n\n{more}\n\n{links}\n", "utf-8")
    if tool == "sphinx":
        (folder / "index.rst").write_text("Towers\n======\n\n.. toctree::\n\n   alerts\n   backups\n", "utf-8")


def build(tool: str, installed: Path, docs: Path, out: Path, config: dict[str, str]) -> None:
    """Build the site into `out`."""
    if tool == "sphinx":
        (docs / "conf.py").write_text(SPHINX.format(**config), "utf-8")
        subprocess.run([installed / "bin" / "sphinx-build", "-q", str(docs), str(out)], check=True)
        return
    work = installed / "site"
    shutil.rmtree(work, ignore_errors=True)
    if tool == "vitepress":
        shutil.copytree(docs, work)
        (work / ".vitepress").mkdir()
        (work / ".vitepress" / "config.js").write_text(VITEPRESS.format(**config), "utf-8")
        command = ["npx", "vitepress", "build", "site", "--outDir", str(out)]
    else:
        shutil.copytree(docs, work / "docs")
        (work / "docusaurus.config.js").write_text(DOCUSAURUS.format(**config), "utf-8")
        (work / "package.json").write_text('{"name": "towers", "private": true}', "utf-8")
        command = ["npx", "docusaurus", "build", "site", "--out-dir", str(out)]
    subprocess.run(command, check=True, cwd=installed)


def converse(browser: Browser, site: str, tool: str, out: Path) -> None:
    """Ask the same on two pages, the second reached by the site's own link, and print what is said."""
    page = browser.new_page(viewport={"width": 1180, "height": 760})
    page.goto(f"{site}/docs/alerts" if tool == "docusaurus" else f"{site}/alerts.html")
    page.locator("body > button[aria-expanded]").click()
    frame = page.frame_locator("body > iframe")
    for at in (1, 2):
        if at == 2:
            page.get_by_role("link", name="Backups").first.click()
            page.locator("h1", has_text="Backups").wait_for()
            if not page.locator("body > iframe").is_visible():
                page.locator("body > button[aria-expanded]").click()
        frame.locator("#question").click()
        frame.locator("#question").fill(QUESTION)
        about = frame.locator("#page").inner_text()
        if at == 2:
            frame.locator("#new").click()
        frame.locator("#question").fill(QUESTION)
        frame.locator("#question").press("Enter")
        turn = frame.locator("article:nth-child(1)[data-state]")
        turn.wait_for(timeout=60_000)
        links = turn.locator(".card > a").evaluate_all("all => all.map((a) => a.href)")
        print(f"about {about!r}: {' '.join(turn.locator('.answer').inner_text().split())[:200]}\n   {links[:1]}")
        if at == 1:
            picture = out / f"{tool}.png"
            page.screenshot(path=picture)
            with Image.open(picture) as whole:
                whole.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(picture, optimize=True)
    inner = next(one for one in page.frames if "/widget" in one.url)
    found = Axe().run(inner).response["violations"]
    print("axe, serious:", [one["id"] for one in found if one["impact"] in ("serious", "critical")])


def main(tool: str, installed: Path, home: Path, out: Path) -> None:
    """Run it."""
    shutil.rmtree(out, ignore_errors=True)
    collection, docs, built = f"towers-{tool}", out / "docs", out / "site"
    write_pages(docs, tool)
    built.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built))) as web:
        site = f"http://127.0.0.1:{web.server_port}"
        threading.Thread(target=web.serve_forever, daemon=True).start()
        live = f"{site}/docs/{{page}}" if tool == "docusaurus" else f"{site}/{{page}}.html"
        settings = Settings.model_validate({
            "home": home, "llm": {"model": "none"}, "server": {"port": 0}, "collection": collection,
            "index": {"site_urls": {str(docs.resolve()): live}},
            "plugins": {"widget": {"origins": [site], "visitor_per_minute": 0, "address_per_minute": 0}},
        })  # fmt: skip
        with served(settings, docs) as held, sync_playwright() as playwright:
            config = {"collection": collection, "script": f"{held['url']}/widget.js", "key": held["key"], "site": site}
            config |= {"server": held["url"], "client": str(Path(__file__).resolve().parents[1] / "client")}
            build(tool, installed.resolve(), docs, built.resolve(), config)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            try:
                converse(browser, site, tool, out)
            finally:
                browser.close()
        web.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
