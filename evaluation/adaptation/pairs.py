"""Training pairs and held-out questions from an operator's documents, without a document on both sides.

From a language model's dialogs, whose split is theirs.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from evaluation.adaptation.questions import HeldOutQuestion
from rewriter.errors import ExampleError
from rewriter.examples import RewriteExample, read_examples, write_examples
from text.files import replacing

TRAIN, HELD = "train.jsonl", "held.jsonl"
HELD_SHARE = 0.2


def split_dialogs(synth: Path, data: Path) -> tuple[int, int]:
    """Write `train.jsonl` and `held.jsonl` into `data` from a folder of `anaphora synth`; how many went where.

    Its dev and test dialogs are held out.
    """
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(synth / "dialogs.train.jsonl", data / TRAIN)
    with (data / HELD).open("w", encoding="utf-8") as held:
        for side in ("dev", "test"):
            held.write((synth / f"dialogs.{side}.jsonl").read_text("utf-8"))
    train = sum(1 for _ in read_examples(data / TRAIN))
    return train, sum(1 for _ in read_examples(data / HELD))


def add_rows(data: Path, files: Sequence[Path]) -> int:
    """Append examples of other files to the training side; how many. Raises ExampleError where one cannot be read."""
    train = data / TRAIN
    more: list[RewriteExample] = []
    for path in files:
        more += read_examples(path)
    if not more:
        return 0
    every = [*read_examples(train), *more]
    if not every:
        raise ExampleError(f"{train} holds no example.")
    with replacing(train) as draft:
        write_examples(draft, every)
    return len(more)


def held_out(key: str, seed: int) -> bool:
    """Whether a document, or a conversation, is kept from training; always the same for one seed."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 < HELD_SHARE


def drawn(asked: Sequence[HeldOutQuestion], most: int, seed: int) -> list[HeldOutQuestion]:
    """At most `most` questions, whole conversations, in an order the seed gives."""
    dialogs: dict[str, list[HeldOutQuestion]] = {}
    for one in asked:
        dialogs.setdefault(one.example.dialog, []).append(one)
    order = sorted(dialogs)
    random.Random(seed).shuffle(order)
    chosen: list[HeldOutQuestion] = []
    for dialog in order:
        if len(chosen) >= most:
            break
        chosen += dialogs[dialog]
    return chosen
