"""Have the chat answer on the documentation's site where no server does: the widget's own page, with recorded turns.

A hook of MkDocs (`make docs`). The turns are recorded by a server over this documentation, without a language model:

    python docs/site/demo.py [--home FOLDER]

writes `demo.json`. Models are taken from the home folder; everything else lies in a folder that is thrown away.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

HERE = Path(__file__).resolve().parent
RECORD, WIDGET = HERE / "demo.json", HERE.parent.parent / "plugins" / "widget"
QUESTIONS = ("Can it read scanned pages?", "how long does it take?", "which languages does it know?")
LIVE = "https://docs.example.org"
"""Where the recording server takes the pages to be; on the site they lie beside the chat."""
KEPT = {"shown": ("html", "sources", "notices"), "done": ("answer", "status", "alternatives", "doubted")}


def on_post_build(config: Any, **_: Any) -> None:
    """Write the chat into the site that MkDocs has built, unless a server answers there."""
    if not config["extra"]["widget"]["address"]:
        build(Path(config["site_dir"]) / "demo")


def build(folder: Path) -> None:
    """Write the widget's script and its page, which answers what was recorded, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {"turns": json.loads(RECORD.read_text("utf-8")), "script": Markup((WIDGET / "frame.js").read_text("utf-8"))}
    functions = {"_": str, "spoken": lambda: "en", "direction": lambda: "ltr"}
    templates = Environment(autoescape=True)
    script = Markup(templates.from_string((HERE / "demo.js").read_text("utf-8")).render(told))
    style = Markup((WIDGET / "widget.css").read_text("utf-8"))
    page = templates.from_string((WIDGET / "widget.html").read_text("utf-8"))
    text = page.render(functions, nonce="", words={}, sites=[], standing=[], style=style, script=script)
    (folder / "widget.html").write_text(text, "utf-8")
    loader = (WIDGET / "widget.js").read_text("utf-8")
    for server, static in (("/* LABELS */ {}", '{ en: "Ask the documentation" }'), ('"widget"', '"widget.html"')):
        assert server in loader, server
        loader = loader.replace(server, static)
    (folder / "widget.js").write_text(loader, "utf-8")


def main() -> None:
    sys.path.insert(0, str(HERE.parent))
    from recording import homes
    from screenshots import DOCS, running_server

    from server.settings import default_home

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=default_home(), help="the home folder that has the models")
    models = parser.parse_args().home / "models"
    os.environ["ANAPHORA_PLUGINS__WIDGET__ORIGINS"] = json.dumps([LIVE])
    os.environ["ANAPHORA_INDEX__SITE_URLS"] = json.dumps({str(DOCS): f"{LIVE}/{{page}}.html"})
    with tempfile.TemporaryDirectory() as folder:
        _, (home, model, settings) = homes(Path(folder), models)
        command = [sys.executable, "-P", "-c", "from cli import main; main()", "--home", str(home), "keys", "create"]
        environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
        made = subprocess.run(
            [*command, "site", "--role", "visitor"], check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
        with running_server(home, model, settings) as address:
            turns = record(address, made.stdout.split()[-1])
    text = json.dumps(turns, ensure_ascii=False, indent=1).replace(LIVE, "../docs")
    RECORD.write_text(f"{text}\n", "utf-8")


def record(address: str, key: str) -> list[dict[str, Any]]:
    """Ask the questions as the widget does; what it shows of each."""
    turns: list[dict[str, Any]] = []
    for question in QUESTIONS:
        said = [(turn["question"], turn["done"]["answer"]) for turn in turns]
        history = [
            {"role": role, "text": text}
            for turn in said
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]
        body = json.dumps({"question": question, "collection": "docs", "history": history}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"{address}/v1/widget/turns", body, headers)
        with urllib.request.urlopen(request, timeout=900) as response:
            lines = [line[6:] for line in response.read().decode().splitlines() if line.startswith("data: ")]
        events = {event["type"]: event for event in map(json.loads, lines)}
        kept = {kind: {name: events[kind][name] for name in names} for kind, names in KEPT.items()}
        turns.append({"question": question, **kept})
        print(f"{question}\n  {kept['done']['answer']}")
    return turns


if __name__ == "__main__":
    main()
