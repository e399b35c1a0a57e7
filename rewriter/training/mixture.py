"""Mixtures: which examples a stage sees, and which are kept from it.

Whether a conversation is held out depends on its id and the recipe's seed alone, so that all its turns stay on one
side, in every stage and every run.
"""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import regex

from rewriter.conversation import Message
from rewriter.errors import ExampleError, RecipeError
from rewriter.examples import RewriteExample, read_examples
from rewriter.load import sha256
from rewriter.training.recipe import DataPart, Recipe
from text.words import FUNCTION_WORDS, words

Side: TypeAlias = Literal["train", "dev", "test"]
_SENTENCE = regex.compile(r"(?<=[.?!])\s+(?=\p{Lu})")
DRILLS = 40_000
_PRONOUNS = ("it", "that", "this", "them", "those", "")


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """A file of a run, for its card."""

    path: str
    sha256: str
    examples: int


class Mixture:
    """The data of a recipe below one folder. Raises ExampleError or RecipeError where a file is missing or spoilt."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe = recipe
        self._root = root
        self._read: dict[str, list[RewriteExample]] = {}
        self._hashes: dict[str, TrainingSource] = {}

    def train(self, stage: int) -> list[RewriteExample]:
        """The examples of one epoch of a stage, as often as their weights say; the order is the sampler's business."""
        chosen = list[RewriteExample]()
        for n, part in enumerate(self._recipe.stage[stage].data):
            examples = [example for example in self._part(part) if self.side(example, part.hold_out) == "train"]
            rng = random.Random(f"{self._recipe.seed}:{stage}:{n}")
            whole = int(part.weight)
            chosen += examples * whole
            chosen += rng.sample(examples, round((part.weight - whole) * len(examples)))
        if not chosen:
            raise RecipeError(f"Stage {self._recipe.stage[stage].name} has nothing to train on.")
        return chosen

    def held_out(self, side: Literal["dev", "test"]) -> list[RewriteExample]:
        """What no stage trains on, at most `dev_examples`, drawn alike in every run; files under `dev` are dev only."""
        found = list[RewriteExample]()
        for part in dict.fromkeys(part for stage in self._recipe.stage for part in stage.data if part.hold_out):
            found += [example for example in self._part(part) if self.side(example, part.hold_out) == side]
        if side == "dev":
            for part in self._recipe.dev:
                found += self._part(part)
        unique = list(dict.fromkeys(found))
        if len(unique) > self._recipe.dev_examples:
            unique = random.Random(f"{self._recipe.seed}:{side}").sample(unique, self._recipe.dev_examples)
        return unique

    def side(self, example: RewriteExample, hold_out: float) -> Side:
        """On which side the example's conversation stands."""
        digest = hashlib.sha256(f"{self._recipe.seed}:{example.source}:{example.dialog}".encode()).digest()
        if int.from_bytes(digest[:8]) / 2**64 >= hold_out:
            return "train"
        return "test" if digest[8] % 2 else "dev"

    def sources(self) -> list[TrainingSource]:
        """Every file that was read, with its hash."""
        return list(self._hashes.values())

    def texts(self) -> Iterator[str]:
        """Every text of the training side, for a vocabulary."""
        for stage in range(len(self._recipe.stage)):
            for example in self.train(stage):
                yield example.question
                yield example.rewrite
                yield from (message.text for message in example.history)

    def _restored(self, path: Path) -> Iterator[RewriteExample]:
        return restored(path, self._recipe.seed)

    def _drilled(self, path: Path) -> Iterator[RewriteExample]:
        return drilled(path, self._recipe.seed)

    def _part(self, part: DataPart) -> list[RewriteExample]:
        key = f"{part.path}|{part.task}|{part.limit}"
        if key not in self._read:
            path = self._root / part.path
            if not path.is_file():
                raise ExampleError(f"There is no file {path}; recipes take their paths from the folder of --data.")
            examples = {"rewrite": read_examples, "restore": self._restored, "words": self._drilled}[part.task](path)
            self._read[key] = _first(examples, part.limit, self._recipe.seed)
            self._hashes[key] = TrainingSource(part.path, sha256(path), len(self._read[key]))
        return self._read[key]


def _first(examples: Iterable[RewriteExample], limit: int | None, seed: int) -> list[RewriteExample]:
    found = list(examples)
    return found if limit is None or len(found) <= limit else random.Random(f"{seed}:limit").sample(found, limit)


def drilled(path: Path, seed: int) -> Iterator[RewriteExample]:
    """Drills in copying: random words of a text, one of which is named by `it` and was said before.

    They mean nothing, so nothing but copying lowers the loss, and they are short: a fresh model learns from them in
    minutes what whole sentences take hours to teach.
    """
    rng = random.Random(f"{seed}:{path.name}:drill")
    known = sorted({word for paragraph in _paragraphs(path) for word in paragraph.split() if len(word) < 16})
    for n in range(DRILLS if known else 0):
        said, question = rng.choices(known, k=rng.randint(1, 4)), rng.choices(known, k=rng.randint(2, 8))
        named = " ".join(said[-rng.randint(1, min(3, len(said))) :])
        at = rng.randrange(len(question) + 1)
        before, after = " ".join(question[:at]), " ".join(question[at:])
        yield RewriteExample(
            f"{path.name}-drill-{n}",
            (Message("user", f"{' '.join(said)}: {named}"),),
            f"{before} it {after}".strip(),
            f"{before} {named} {after}".strip(),
            f"{path.name}-drill",
        )


def _paragraphs(path: Path) -> list[str]:
    try:
        opening = gzip.open if path.suffix == ".gz" else open
        with opening(path, "rt", encoding="utf-8") as file:
            return regex.split(r"\n\s*\n", str(file.read()))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ExampleError(f"{path} cannot be read ({error}).") from error


def restored(path: Path, seed: int) -> Iterator[RewriteExample]:
    """Pairs from plain text, blank lines between paragraphs: a sentence that lost words its paragraph says elsewhere.

    The paragraph up to the sentence is the assistant's message. In half of the pairs the sentence is whole and kept.
    It teaches to copy and to look back before real pairs teach what to look for.
    """
    rng = random.Random(f"{seed}:{path.name}")
    for n, paragraph in enumerate(_paragraphs(path)):
        sentences = [sentence.strip() for sentence in _SENTENCE.split(" ".join(paragraph.split()))]
        for i in range(1, len(sentences)):
            before, sentence = " ".join(sentences[max(0, i - 3) : i]), sentences[i]
            if not 4 <= len(sentence.split()) <= 24 or len(before) < 20:
                continue
            lost = _lost(sentence, before, rng) if rng.random() < 0.5 else sentence
            if lost:
                yield RewriteExample(f"{path.name}-{n}#{i}", (Message("assistant", before),), lost, sentence, path.name)


def _lost(sentence: str, before: str, rng: random.Random) -> str:
    """`sentence` with a run of words that `before` also has replaced by a pronoun, or dropped; empty if it has none."""
    known = set(words(before)) - FUNCTION_WORDS
    tokens = sentence.split()
    shared = [bool(set(words(token)) & known) for token in tokens]
    starts = [i for i, is_shared in enumerate(shared) if is_shared and (i == 0 or not shared[i - 1])]
    if not starts:
        return ""
    start = end = rng.choice(starts)
    while end < len(tokens) and shared[end]:
        end += 1
    if start and tokens[start - 1].lower() in {"the", "a", "an", "your", "this"}:
        start -= 1
    pronoun = rng.choice(_PRONOUNS)
    return " ".join([*tokens[:start], *([pronoun] if pronoun else []), *tokens[end:]])
