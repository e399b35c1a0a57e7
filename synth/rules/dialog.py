"""A conversation in the making: what was said, what it was about, and what can be pointed at.

Moves (`synth.rules.moves`) read this and return a `Step`; the dialog itself decides nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from rewriter.conversation import Turn
from synth.rules.asking import Action, lowered
from synth.rules.material import Material, Sentence
from synth.rules.phrases import Phrase
from synth.rules.questions import Question

NOT_FOUND = (
    "I could not find that in the documentation.",
    "The documentation does not say.",
    "Sorry, I have no information about that.",
    "That is not mentioned in the documents I have.",
    "I don't know, the pages I have do not tell.",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the user: as typed, as it stands alone, how it was made, and the sentence that answers it.

    `asked` is the question in parts where there is one (later turns can take it up); `answer` a sentence of the
    material or None; `about` the phrase the next pronoun stands for.
    """

    question: str
    rewrite: str
    rules: tuple[str, ...]
    asked: Question | None = None
    answer: Sentence | None = None
    about: Phrase | None = None
    reply: str = ""


@dataclass(slots=True)
class Dialog:
    """The state of one conversation over one document at a time."""

    material: Material
    others: Sequence[Material]
    random: random.Random
    turns: list[Turn] = field(default_factory=list)
    asked: Question | None = None
    rewrite: str = ""
    answer: Sentence | None = None
    about: Phrase | None = None
    gender: str = "she"
    used: set[str] = field(default_factory=set)
    mentioned: dict[str, tuple[int, Phrase]] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Say a step and its answer."""
        self.turns.append(Turn("user", step.question))
        reply = step.reply or self._reply(step)
        self.turns.append(Turn("assistant", reply))
        self.asked = step.asked
        self.rewrite = step.rewrite
        self.answer = step.answer
        self.about = step.about
        self.used.add(step.rewrite.lower())
        place = len(self.turns)
        if step.asked is not None:
            for phrase in step.asked.phrases:
                self.mentioned[phrase.key] = (place, phrase)
        if step.answer is not None:
            for phrase in step.answer.phrases:
                self.mentioned.setdefault(phrase.key, (place, phrase))

    def _reply(self, step: Step) -> str:
        rng = self.random
        if step.answer is None:
            return rng.choice(NOT_FOUND)
        text = step.answer.text
        if step.asked is not None and step.asked.kind == "yes_no" and rng.random() < 0.5:
            return f"{'No' if step.answer.negated else 'Yes'}, {lowered(text)}"
        if rng.random() < 0.15:
            places = self.material.said.get(step.about.key, ()) if step.about is not None else ()
            more = [
                self.material.sentences[place] for place in places if self.material.sentences[place] is not step.answer
            ]
            if more:
                return f"{text} {rng.choice(more).text}"
        return text

    def new(self, rewrite: str) -> bool:
        """Whether this was not asked before in the conversation."""
        return rewrite.lower() not in self.used

    def sentence_about(self, key: str) -> Sentence | None:
        """A sentence that names the phrase, one not just said where there is a choice."""
        places = self.material.said.get(key, ())
        if not places:
            return None
        chosen = self.material.sentences[self.random.choice(places)]
        if chosen is self.answer and len(places) > 1:
            chosen = self.material.sentences[self.random.choice(places)]
        return chosen

    def sentence(self, place: int) -> Sentence | None:
        """The sentence at a place of the material, None for -1."""
        return self.material.sentences[place] if 0 <= place < len(self.material.sentences) else None

    @property
    def action(self) -> Action | None:
        """What was last spoken of doing, in the answer or else in the question."""
        if self.answer is not None and self.answer.action is not None:
            return self.answer.action
        return None
