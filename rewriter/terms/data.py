"""Training examples as readings with labels, in the order a seed gives.

A word of the history is to be appended where its stem stands in the rewrite and not in the question.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import regex

from rewriter.conversation import Message
from rewriter.errors import RecipeError
from rewriter.examples import RewriteExample, read_examples
from rewriter.terms.reading import ConversationReader, Reading
from rewriter.terms.recipe import Recipe
from text.words import stems

_SENTENCE = regex.compile(r"(?<=[.!?])\s+")
_FURTHER = 4


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reading, which of its words are to be appended, and whether the question needs its history."""

    reading: Reading
    wanted: tuple[bool, ...]
    needs_history: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Examples with a history, and the SHA-256 of every file they came from."""

    train: tuple[RewriteExample, ...]
    held_out: tuple[RewriteExample, ...]
    hashes: dict[str, str]


def read_data(recipe: Recipe, root: Path) -> Split:
    """The recipe's data below `root`; dialogs are held out whole, and always the same ones."""
    train, held_out, hashes = list[RewriteExample](), list[RewriteExample](), dict[str, str]()
    for name in recipe.data:
        path = root / name
        if not path.is_file():
            raise RecipeError(f"the recipe wants {name}, but {root} has no such file")
        hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        for example in read_examples(path):
            if example.history:
                (held_out if _share(example.dialog) < recipe.held_out else train).append(example)
    if not train:
        raise RecipeError(f"no example in {', '.join(recipe.data)} has a history: there is nothing to learn")
    return Split(tuple(train), tuple(held_out), hashes)


def label(reader: ConversationReader, example: RewriteExample) -> Labelled:
    """An example as the model sees it."""
    reading = reader.read(example.conversation, example.question)
    added = frozenset(stems(example.rewrite))
    return Labelled(reading, tuple(word.stem in added for word in reading.words), example.needs_rewrite)


def batches(items: Sequence[Labelled], size: int, shuffled: random.Random) -> list[list[Labelled]]:
    """Batches of readings about equally long, in random order."""
    order = list(items)
    shuffled.shuffle(order)
    pools = [order[i : i + 50 * size] for i in range(0, len(order), 50 * size)]
    made = [
        pool[i : i + size]
        for pool in (sorted(pool, key=lambda item: len(item.reading.ids)) for pool in pools)
        for i in range(0, len(pool), size)
    ]
    shuffled.shuffle(made)
    return made


def lengthened(examples: Sequence[RewriteExample], share: float, chosen: random.Random) -> Iterator[RewriteExample]:
    """The examples, with `share` of their answers followed by a few other sentences of the same dialog."""
    said: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        for turn in example.history:
            if turn.role == "assistant" and turn.text not in said[example.dialog]:
                said[example.dialog].append(turn.text)
    for example in examples:
        sentences = [sentence for text in said[example.dialog] for sentence in _SENTENCE.split(text)]
        yield replace(example, history=tuple(_longer(turn, sentences, share, chosen) for turn in example.history))


def shifted(examples: Sequence[RewriteExample], share: float, chosen: random.Random) -> Iterator[RewriteExample]:
    """Questions that stand alone, put after the conversation of another dialog: nothing of it is to be appended.

    The stand-alone forms of `share` as many examples as there are. Written conversations stay with their subject;
    people leave it, and what they leave must not follow them.
    """
    dialogs = {example.dialog for example in examples}
    if len(dialogs) < 2:
        return
    for example in chosen.sample(examples, round(share * len(examples))):
        other = example
        while other.dialog == example.dialog:
            other = chosen.choice(examples)
        yield replace(example, history=other.history, question=example.rewrite)


def _longer(turn: Message, sentences: list[str], share: float, chosen: random.Random) -> Message:
    if turn.role != "assistant" or chosen.random() >= share:
        return turn
    others = [sentence for sentence in sentences if sentence not in turn.text]
    more = chosen.sample(others, min(len(others), chosen.randint(1, _FURTHER)))
    return Message(turn.role, " ".join([turn.text, *more]))


def _share(dialog: str) -> float:
    return int.from_bytes(hashlib.sha256(dialog.encode()).digest()[:8], "big") / 2**64
