"""Training pairs and held-out questions, without a document on both sides.

Dialogs by a language model have their own split; rows of an operator's are for training alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from evaluation.adaptation.questions import HeldOutQuestion
from evaluation.errors import EvaluationError
from rewriter.examples import read_examples, write_examples
from synth import Folder
from text.files import replacing, write_text

TRAIN, HELD = "train.jsonl", "held.jsonl"


def write_pairs(data: Path, dialogs: Folder | None, rows: Sequence[Path]) -> tuple[int, int]:
    """Write the training side into `data`, and the held-out side where there are dialogs; how many went where.

    Dev and test dialogs are held out. Raises EvaluationError where the dialogs are not finished or nothing is there
    to train on, and ExampleError where a file cannot be read.
    """
    train, held = list(rows), 0
    if dialogs is not None:
        wanted = (*map(dialogs.dialogs, ("train", "dev", "test")), dialogs.propositions)
        if missing := [path.name for path in wanted if not path.is_file()]:
            raise EvaluationError(
                f"The dialogs in {dialogs.path} are not finished (there is no {missing[0]}): run the same command "
                "again to go on, or bring `anaphora synth` to its end there."
            )
        train.insert(0, wanted[0])
        write_text(data / HELD, "".join(path.read_text("utf-8") for path in wanted[1:3]))
        held = sum(1 for _ in read_examples(data / HELD))
    with replacing(data / TRAIN) as draft:
        count = write_examples(draft, chain.from_iterable(map(read_examples, train)))
    if not count:
        raise EvaluationError(f"There is no row to train on in {', '.join(map(str, train))}.")
    return count, held


def drawn(asked: Sequence[HeldOutQuestion], most: int, seed: int) -> list[HeldOutQuestion]:
    """At most `most` questions, whole conversations, in an order the seed gives."""
    dialogs: dict[str, list[HeldOutQuestion]] = {}
    for one in asked:
        dialogs.setdefault(one.dialog, []).append(one)
    order = sorted(dialogs)
    random.Random(seed).shuffle(order)
    chosen: list[HeldOutQuestion] = []
    for dialog in order:
        if len(chosen) >= most:
            break
        chosen += dialogs[dialog]
    return chosen
