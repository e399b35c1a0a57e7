"""Training examples as readings with labels.

A word of the history is to be appended where its stem stands in the rewrite and not in the question.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import regex

from rewriter.conversation import Message
from rewriter.errors import RecipeError
from rewriter.examples import RewriteExample
from rewriter.terms.reading import ConversationReader, Reading
from text.words import stems

if TYPE_CHECKING:
    from rewriter.terms.model_part import TermModelPart

_SENTENCE = regex.compile(r"(?<=[.!?])\s+")
_FURTHER = 4


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reading, which of its words are to be appended, whether the question needs its history, and what it means."""

    reading: Reading
    wanted: tuple[bool, ...]
    needs_history: bool
    rewrite: str = ""


class TermFeatures:
    """Labelled readings of the examples that have a history, with questions shifted to other conversations.

    What is trained on is augmented anew in each epoch: answers are lengthened, and other questions are shifted.
    """

    def __init__(
        self,
        examples: Sequence[RewriteExample],
        reader: ConversationReader,
        part: TermModelPart,
        seed: int,
        train: bool,
    ) -> None:
        self._examples = [example for example in examples if example.history]
        self._reader, self._part, self._seed, self._train = reader, part, seed, train
        if train and not self._examples:
            raise RecipeError("no example has a history: there is nothing to learn")
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Labelled:
        return self.items[i]

    def length(self, i: int) -> int:
        """Tokens of an item."""
        return len(self.items[i].reading.ids)

    def set_epoch(self, epoch: int) -> None:
        """Make the epoch's readings, the same ones whenever they are asked for."""
        chosen = random.Random(f"{self._seed}:{epoch}")
        longer = self._part.longer_answers if self._train else 0.0
        examples = list(lengthened(self._examples, longer, chosen))
        examples += shifted(examples, self._part.shifted, chosen)
        self.items = [label(self._reader, example) for example in examples]


def label(reader: ConversationReader, example: RewriteExample) -> Labelled:
    """An example as the model sees it."""
    reading = reader.read(example.conversation, example.question)
    added = frozenset(stems(example.rewrite))
    wanted = tuple(word.stem in added for word in reading.words)
    return Labelled(reading, wanted, example.needs_rewrite, example.rewrite)


def lengthened(examples: Sequence[RewriteExample], share: float, chosen: random.Random) -> Iterator[RewriteExample]:
    """The examples, with `share` of their answers followed by a few other sentences of the same dialog."""
    said: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        for message in example.history:
            if message.role == "assistant" and message.text not in said[example.dialog]:
                said[example.dialog].append(message.text)
    for example in examples:
        sentences = [sentence for text in said[example.dialog] for sentence in _SENTENCE.split(text)]
        yield replace(example, history=tuple(_longer(one, sentences, share, chosen) for one in example.history))


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


def _longer(message: Message, sentences: list[str], share: float, chosen: random.Random) -> Message:
    if message.role != "assistant" or chosen.random() >= share:
        return message
    others = [sentence for sentence in sentences if sentence not in message.text]
    more = chosen.sample(others, min(len(others), chosen.randint(1, _FURTHER)))
    return Message(message.role, " ".join([message.text, *more]))
