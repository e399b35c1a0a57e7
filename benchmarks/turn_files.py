"""Count the project's files whose code runs in a warm follow-up: asked over HTTP, answered in quotes, models loaded.

    python benchmarks/turn_files.py --home HOME --collection docs

The collection must be indexed. The second question of a second conversation is traced (`sys.setprofile`, all threads).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import httpx

from server.api.app import create_app
from server.chat import open_service, service
from server.settings import Settings

ROOT = f"{Path(__file__).resolve().parent.parent}/"
QUESTIONS = ("Can a file crash the server?", "and how much memory may it take?")


async def trace(settings: Settings, collection: str) -> Counter[str]:
    """Calls by file, paths relative to the project."""
    calls: Counter[str] = Counter()
    # What looks after other servers is no part of a turn.
    service.TAKE_OVER_SECONDS = 3600.0
    tracing = threading.Event()

    def count(frame: FrameType, event: str, _: object) -> None:
        if tracing.is_set() and event == "call" and frame.f_code.co_filename.startswith(ROOT):
            calls[frame.f_code.co_filename.removeprefix(ROOT)] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    async with open_service(settings) as opened:
        transport = httpx.ASGITransport(app=create_app(opened, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860", timeout=120) as client:
            for last in (False, True):
                made = await client.post("/v1/conversations", json={"collection": collection})
                for question in QUESTIONS:
                    if last and question == QUESTIONS[-1]:
                        tracing.set()
                    answer = await client.post(
                        f"/v1/conversations/{made.json()['id']}/turns", json={"question": question}
                    )
                    answer.raise_for_status()
                    tracing.clear()
    sys.setprofile(None)
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--collection", default="docs")
    options = parser.parse_args()
    settings = Settings.model_validate({"home": options.home, "llm": {"model": "none"}})
    calls = asyncio.run(trace(settings, options.collection))
    files = {name: count for name, count in calls.items() if not name.startswith(("benchmarks/", ".venv/"))}
    for name, count in sorted(files.items()):
        print(f"{count:6} {name}")
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
