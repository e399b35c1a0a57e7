"""What recording a turn costs, as a share of a turn without a language model.

The same questions are asked of one service over this project's documentation, each twice in turn: recorded and stored
as always, and with nothing recorded. Told is the median of the paired ratios, by wall time and by processor time of the
whole process (the thread that writes the database included). Usage: `python benchmarks/bench_tracing.py --home HOME
[--rounds N]`, where HOME holds the fetched encoder.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from opentelemetry.trace import INVALID_SPAN

from server.chat import ChatService, TurnRequest, open_service
from server.settings import LLMSettings, Settings
from server.tracing import Tracing
from text.recorder import Call

QUESTIONS = (
    "How do I limit how many turns run at once?",
    "Where are conversations kept?",
    "Which formats can be indexed?",
    "How is a rewriter promoted?",
    "What does trace.content do?",
    "How long is a trace kept?",
    "Can the server run behind a proxy?",
    "What is a leg of a search?",
)
MOST = 1.02
DOCS = Path(__file__).resolve().parents[1] / "docs"


async def ask(service: ChatService, question: str, *, recorded: bool) -> tuple[float, float]:
    """Wall and processor seconds of one turn, its writing to the database included."""
    nothing: Any = [
        patch.object(Tracing, "begin_turn", lambda *_: Call(INVALID_SPAN, None)),
        patch.object(Tracing, "end", lambda *_: None),
    ]
    for one in () if recorded else nothing:
        one.start()
    wall, cpu = time.perf_counter(), time.process_time()
    async for _ in service.turns.ask(TurnRequest(question=question)):
        pass
    took = time.perf_counter() - wall, time.process_time() - cpu
    for one in () if recorded else nothing:
        one.stop()
    return took


async def measure(home: Path, models: Path, rounds: int) -> list[tuple[float, float]]:
    """The ratio of each pair: recorded to unrecorded, wall and processor time."""
    (home / "models").symlink_to(models / "models")
    settings = Settings(home=home, llm=LLMSettings(model="none"))
    async with open_service(settings) as service:
        job = await service.collections.index_paths(settings.collection, [DOCS])
        while not job.finished:
            await asyncio.sleep(0.2)
            job = await service.admin.job(job.id)
        for question in QUESTIONS:
            await ask(service, question, recorded=True)
        found = []
        for number in range(rounds):
            question = QUESTIONS[number % len(QUESTIONS)]
            first = bool(number // len(QUESTIONS) % 2)
            took = {which: await ask(service, question, recorded=which) for which in (first, not first)}
            found.append((took[True][0] / took[False][0], took[True][1] / took[False][1]))
        return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the bounds that hold 95 % of resampled medians."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[975]


def main() -> None:
    """Measure, and say whether the share is what it may be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=400)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratios = asyncio.run(measure(Path(folder), arguments.home.absolute(), arguments.rounds))
    for name, values in zip(("wall", "processor"), zip(*ratios, strict=True), strict=True):
        middle, low, high = interval(list(values))
        print(f"{name}: recorded / unrecorded = {middle:.4f} ({low:.4f} to {high:.4f}), at most {MOST}")


if __name__ == "__main__":
    main()
