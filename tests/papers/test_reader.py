"""A tiny reader: trained through the one stack, with and without an encoder, and read with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from papers.document_reading.reader import READERS, load_reader
from papers.document_reading.reading import trained_readings
from rewriter.examples import RewriteExample, write_examples
from rewriter.protocol import Message
from rewriter.recipe import Recipe
from rewriter.runs import list_runs
from rewriter.training import Machine, train
from tests.tiny_models import tiny_llama, tiny_t5

COLOURS = ("red", "blue", "green", "black")


def rows(count: int) -> Iterator[RewriteExample]:
    """Every second passage does not say what is asked for."""
    rng = random.Random(1)
    for n in range(count):
        colour, question = rng.choice(COLOURS), "What colour is it?"
        text = f"The kettle is {colour}." if n % 2 else "The kettle is old."
        yield RewriteExample(f"p{n}#1", (Message("assistant", text),), question, colour if n % 2 else question, "t")


@pytest.mark.parametrize("base", [tiny_t5, tiny_llama])
def test_a_reader_is_trained_and_read_with(base: Callable[[Path], Path], tmp_path: Path) -> None:
    write_examples(tmp_path / "rows.jsonl", rows(120))
    model = {"family": "reader", "base": str(base(tmp_path / "base")), "decoder": base is tiny_llama}
    stage = {"data": [{"path": "rows.jsonl", "hold_out": 0.2}], "steps": 8, "batch": 8, "warmup": 2}
    recipe = Recipe.model_validate({"name": "rows", "model": model, "stage": stage, "dev_examples": 30})
    folder = tmp_path / READERS.folder / "mine"
    train(recipe, tmp_path, folder, machine=Machine(True, 1, False), callback=lambda _: None)
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
