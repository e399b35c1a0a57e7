"""Which answers do people get while a collection is not embedded yet? The same questions at several shares of vectors.

    python benchmarks/bench_ready.py DATA/product_docs/pi-hole rewriter/data/dialogs.dev.jsonl HOME 100

The first so many user turns of the product's dialogs that have an answer in the documents or none are asked, each with
the conversation before it, without a language model. Prints how many are answered for sure, with a doubt told, asked
back and refused, and how many of the answers hold a sentence that is marked as the answer. HOME holds the models;
collections are made in a folder of its own below it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from evaluation.report import table
from evaluation.retrieval import patient
from index.indexer import index_paths
from papers.bench import CachedEncoder
from rewriter.protocol import Message
from server.access import at_terminal
from server.chat import open_service
from server.chat.loaded_models import Models
from server.chat.running_turn import TurnRequest
from server.settings import Settings
from text.words import stems

SHARES = (0.0, 0.25, 1.0)
"""0 stands for the one batch that the first version has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the messages before it, and the sentences that answer it; none where the documents do not."""

    text: str
    history: tuple[Message, ...]
    quotes: tuple[str, ...]


def questions(path: Path, product: str, most: int) -> list[Asked]:
    """The first questions of a product's dialogs, as `most` says."""
    found: list[Asked] = []
    for line in path.read_text("utf-8").splitlines():
        dialog = json.loads(line)
        history: list[Message] = []
        for turn in dialog["turns"] if dialog["product"] == product else ():
            if turn.get("answerability") in ("answerable", "unanswerable"):
                quotes = tuple(evidence["quote"] for evidence in turn.get("evidence", ()))
                if bool(quotes) == (turn["answerability"] == "answerable"):
                    found.append(Asked(turn["text"], tuple(history), quotes))
            history.append(Message(turn["role"], turn["text"]))
    return found[:most]


def holds(answer: str, quotes: tuple[str, ...]) -> bool:
    """Whether an answer has nearly all words of one of the marked sentences."""
    words = set(stems(answer, "english"))
    return any(len(wanted & words) >= 0.9 * len(wanted) for quote in quotes if (wanted := set(stems(quote, "english"))))


async def outcomes(settings: Settings, asked: list[Asked]) -> dict[bool, Counter[str]]:
    """How the questions ended, by whether they have an answer."""
    counted: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    async with open_service(settings) as opened:
        service = opened.as_principal(at_terminal())
        await opened.core.warm()
        for one in asked:
            async for event in service.turns.ask(TurnRequest(question=one.text, history=one.history, keep="off")):
                if event.type != "done":
                    continue
                of = counted[bool(one.quotes)]
                sure = event.status in ("answered", "quoted") and not event.doubted
                of["sure" if sure else "doubted" if event.status in ("answered", "quoted") else event.status] += 1
                of["held"] += holds(event.answer, one.quotes)
                of["held, sure"] += sure and holds(event.answer, one.quotes)
    return counted


def main(docs: Path, dialogs: Path, home: Path, most: int) -> None:
    """Print the table."""
    work = home / "bench_ready"
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "models").exists():
        (work / "models").symlink_to((home / "models").resolve())
    settings = patient(Settings(home=work))
    asked = questions(dialogs, docs.name, most)
    rows = []
    with CachedEncoder(Models(settings).encoder(), work / "known.sqlite") as encoder:
        for share in sorted(SHARES, reverse=True):
            shutil.rmtree(work / "collections", ignore_errors=True)
            done = [0.0]

            def seen(step: object, done: list[float] = done) -> None:
                if getattr(step, "stage", "") == "embedding":
                    done[0] = getattr(step, "done", 0) / max(1, getattr(step, "total", 1))

            report = index_paths(
                work / "collections",
                settings.collection,
                [docs],
                encoder,
                passage_tokens=settings.index.passage_tokens,
                progress=seen,
                enough=lambda share=share, done=done: share < 1 and done[0] >= share,
            )
            passages = sum(file.passages for file in report.files)
            counted = asyncio.run(outcomes(settings, asked))
            for answerable, of in counted.items():
                rows.append(
                    [
                        f"{1 - report.without_vector / passages:.0%}",
                        "answered by the documents" if answerable else "not answered by them",
                        *(of[name] for name in ("sure", "doubted", "asked", "refused", "held", "held, sure")),
                    ]
                )
            print(rows[-2:], file=sys.stderr, flush=True)
    head = ["vectors", "questions", "sure", "doubted", "asked back", "refused", "marked sentence shown", "… for sure"]
    print(table(head, [[str(cell) for cell in row] for row in rows]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), int(sys.argv[4]))
