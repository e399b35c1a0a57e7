"""A tiny reader: trained through the one stack from a config, with and without an encoder, and read with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from papers.document_reading.reader import READERS, load_reader
from papers.document_reading.reading import trained_readings
from rewriter.examples import RewriteExample, write_examples
from rewriter.protocol import Message
from rewriter.runs import list_runs
from rewriter.training.recipe import Recipe

Recipes = Callable[..., Recipe]
Runs = Callable[[Recipe, Path, Path], Path]
COLOURS = ("red", "blue", "green", "black")


def rows(count: int) -> Iterator[RewriteExample]:
    """Every second passage does not say what is asked for."""
    rng = random.Random(1)
    for n in range(count):
        colour, question = rng.choice(COLOURS), "What colour is it?"
        text = f"The kettle is {colour}." if n % 2 else "The kettle is old."
        yield RewriteExample(f"p{n}#1", (Message("assistant", text),), question, colour if n % 2 else question, "t")


@pytest.mark.parametrize("base", ["config:tiny", "config:gpt2-tiny"])
def test_a_reader_is_trained_and_read_with(base: str, tmp_path: Path, recipe_of: Recipes, run: Runs) -> None:
    write_examples(tmp_path / "papers.jsonl", rows(120))
    decoder = base != "config:tiny"
    recipe = recipe_of(model={"family": "reader", "base": base, "decoder": decoder}, stage={"steps": 8})
    folder = run(recipe, tmp_path, tmp_path / READERS.folder / "mine")
    (info,) = list_runs(tmp_path, READERS)
    assert (info.family, info.problem) == ("reader", "")
    assert {"examples", "answer_f1", "gate_accuracy"} == set(info.metrics)
    reader = load_reader(folder)
    passages = ["The kettle is red.", "The kettle is old.", "a " * 5000]
    found = reader.read("What colour is it?", passages)
    assert len(found) == 3
    assert all(0 <= chance <= 1 for _, chance in found)
    read = trained_readings(reader, "What colour is it?", passages)
    assert [one.text for one in read] == [text for text, _ in found]
    assert all((one.kind == "unanswerable") == (not one.text) for one in read)
    reader.close()
