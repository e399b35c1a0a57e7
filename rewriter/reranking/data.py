"""Rows as a cross-encoder learns from them: groups of pairs of one question, cut and in tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.reranking.model_part import RerankerModelPart
from rewriter.reranking.rows import RankedPassage, RerankExample
from text.asking import AskingLengths, QuestionContext, asking

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WINDOW = 512


@dataclass(frozen=True, slots=True)
class RankedGroup:
    """The pairs of one question `(ids, types)`, which of them are relevant, and the teacher's scores, if it has any."""

    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    relevant: tuple[bool, ...]
    scores: tuple[float, ...] | None


class PairReader:
    """Makes a question's pairs as they are served: the same text, the same cuts, the same tokens."""

    def __init__(self, tokenizer: Path, lengths: AskingLengths) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(WINDOW)
        self._plain: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._plain.no_padding()
        self._plain.no_truncation()
        self._lengths = lengths

    def cut(self, text: str, tokens: int) -> tuple[str, int]:
        """The text's beginning of at most so many tokens, and how many those are."""
        offsets = self._plain.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= tokens:
            return text, len(offsets)
        return text[: offsets[tokens - 1][1]], tokens

    def asked(self, example: RerankExample, *, standalone: bool) -> str:
        """The question's side of its pairs."""
        if standalone:
            return asking(example.rewrite, QuestionContext(), self._lengths, self.cut)
        before, answer = example.conversation.last_exchange()
        context = QuestionContext(" ".join(example.words), before, answer)
        return asking(example.question, context, self._lengths, self.cut)

    def group(self, question: str, passages: Sequence[RankedPassage], tokens: int) -> RankedGroup:
        """Pairs of the question's side and each passage, which is cut to so many tokens."""
        encoded = self._tokenizer.encode_batch([(question, self.cut(one.text, tokens)[0]) for one in passages])
        scores = tuple(one.score for one in passages if one.score is not None)
        return RankedGroup(
            tuple((tuple(one.ids), tuple(one.type_ids)) for one in encoded),
            tuple(one.relevant for one in passages),
            scores if len(scores) == len(passages) else None,
        )


class RerankFeatures:
    """Groups of the examples. What is trained on draws its passages anew in each epoch; what is held out has all."""

    def __init__(
        self, examples: Sequence[RerankExample], reader: PairReader, part: RerankerModelPart, seed: int, train: bool
    ) -> None:
        self._examples, self._reader, self._part, self._seed, self._train = examples, reader, part, seed, train
        self._epoch = 0
        # Tokens are four characters or so; batches need no more than that.
        self._lengths = [
            sum(min(len(one.text), 4 * part.passage_tokens) for one in example.passages) // len(example.passages)
            for example in examples
        ]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, i: int) -> RankedGroup:
        example, part = self._examples[i], self._part
        rng = random.Random(f"{self._seed}:{self._epoch}:{example.id}")
        passages = list(example.passages)
        if self._train:
            relevant = [one for one in passages if one.relevant]
            others = [one for one in passages if not one.relevant]
            passages = [rng.choice(relevant), *rng.sample(others, min(part.group - 1, len(others)))]
        has_rewrite = bool(example.history and example.rewrite)
        standalone = self._train and has_rewrite and rng.random() < part.standalone
        return self._reader.group(self._reader.asked(example, standalone=standalone), passages, part.passage_tokens)

    def length(self, i: int) -> int:
        """About how long its pairs are."""
        return self._lengths[i]

    def set_epoch(self, epoch: int) -> None:
        """Draw passages anew."""
        self._epoch = epoch
