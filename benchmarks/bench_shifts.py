"""What a rewriter does where people change the subject: questions that stand alone, after another conversation.

    python benchmarks/bench_shifts.py --data DATA [--home HOME] [--rewriters auto RUN ...] [--questions N] [--seed N]

`--data` is a folder with `synthetic/` and `mtrag/`, on neither of whose dialogs here the packaged rewriter was trained.
Every question is written out in full, so nothing of the conversation before it belongs to it. Prints how many
of them a rewriter changes nevertheless; and, so that one that never does anything does not win, how many it changes of
the questions that need the conversation they were asked in.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from rewriter.examples import RewriteExample, read_examples
from rewriter.protocol import Rewriter
from rewriter.terms_training import shifted
from server.rewriters import open_rewriter
from server.settings import Settings

SETS = {"written dialogs": "synthetic/dialogs.dev.jsonl", "MTRAG": "mtrag/dialogs.jsonl"}


def changed(rewriter: Rewriter, examples: list[RewriteExample]) -> float:
    """The share of questions that are not searched as typed."""
    made = (rewriter.rewrite(example.conversation, example.question) for example in examples)
    return sum(rewrite.decision in ("expand", "rewrite") for rewrite in made) / len(examples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Settings().home)
    parser.add_argument("--rewriters", nargs="+", default=["auto"])
    parser.add_argument("--questions", type=int, default=300, help="of a set, at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| set | rewriter | changed after a change of subject | changed where the conversation is needed |")
    print("|---|---|---|---|")
    for name, path in SETS.items():
        examples = [example for example in read_examples(options.data / path) if example.history]
        needing = [example for example in examples if example.needs_rewrite]
        share = min(1.0, options.questions / len(examples))
        strange = list(shifted(examples, share, random.Random(options.seed)))
        for wanted in options.rewriters:
            settings = Settings(home=options.home)
            chosen = {"kind": "auto", "model": "" if wanted == "auto" else wanted}
            used = open_rewriter(settings.model_copy(update={"rewriter": settings.rewriter.model_copy(update=chosen)}))
            print(f"| {name} | {wanted} | {changed(used, strange):.3f} | {changed(used, needing):.3f} |", flush=True)


if __name__ == "__main__":
    main()
