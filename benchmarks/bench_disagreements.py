"""How well are sections found that disagree? Read the nearest sections of a manual, and sentences with planted edits.

    python benchmarks/bench_disagreements.py DATA/product_docs/fastapi HOME

Prints how many pairs of nearest sections of different pages are shown (in a manual that agrees with itself all are
wrong), and how many sentences are shown beside themselves with another number, or with "not". HOME holds the models.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np

from index.loaders.files import load, walk
from plugins.insights.disagreements import Quoted, disagree, said_otherwise
from server.chat.loaded_models import ServiceModels
from server.settings import Settings
from server.turn.support import plain
from text.sentences import sentences
from text.words import negations

CHARS, NEAREST, PLANTED = 600, 3, 150


def main(folder: Path, home: Path) -> None:
    """Print the counts."""
    models = ServiceModels(Settings(home=home))
    model, encoder = models.pairs(), models.encoder()
    sections = [
        Quoted(
            document_id=document.id, title=document.title, heading=" › ".join(part.heading), url="",
            sentence=document.text[part.start : part.end][:CHARS],
        )
        for file in walk([folder])
        for document in load(file.path, file.document_id)
        for part in document.sections
    ]  # fmt: skip
    vectors = encoder.encode([section.sentence for section in sections])
    nearest = np.argsort(-(vectors @ vectors.T), axis=1)[:, 1 : 1 + NEAREST]
    pairs = {
        (min(at, other), max(at, other))
        for at, others in enumerate(nearest.tolist())
        for other in others
        if sections[at].document_id != sections[other].document_id
    }
    shown = [
        two
        for at, other in sorted(pairs)
        for two in said_otherwise(sections[at], sections[other])
        if disagree(model, *two)
    ]
    print(f"{len(pairs)} pairs of sections, {len(shown)} shown")
    for one, other in shown:
        print(f"  {one.sentence} | {other.sentence}")
    texts = [
        text
        for section in sections
        for part in sentences(section.sentence)
        if part.kind == "prose" and 30 < len(text := plain(section.sentence[part.start : part.end])) < 250
    ]
    rng = random.Random(1)
    for name, pattern, edit in (
        ("number", r"(?<![\w.])\d{1,4}(?![\w.])", lambda word: str(int(word) + rng.choice((1, 3, 7, 20)))),
        ("negation", r"\b(?:is|are|can|will|must|should)\b(?! not)", lambda word: f"{word} not"),
    ):
        fitting = [text for text in texts if "://" not in text and not negations(text) and re.search(pattern, text)]
        chosen = rng.sample(fitting, min(PLANTED, len(fitting)))
        matches = [(text, re.search(pattern, text)) for text in chosen]
        edited = [f"{text[: at.start()]}{edit(at[0])}{text[at.end() :]}" for text, at in matches if at]
        places = [
            [Quoted(document_id="", title="", heading="Notes", sentence=text, url="") for text in two]
            for two in zip(chosen, edited, strict=True)
        ]
        print(f"{name}: {sum(disagree(model, *two) for two in places)} of {len(chosen)} planted edits shown")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
