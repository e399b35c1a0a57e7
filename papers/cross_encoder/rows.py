"""Rows that a cross-encoder learns from: a question in its conversation, and passages to rank by it.

They are written by `python -m papers.cross_encoder rows` or by hand: JSON lines with `id`, `history` (`role` and
`text`), `question`, `rewrite` (where it is known), `words` (what the term rewriter would append), `source`, and
`passages`, each with its `text`, whether it is `relevant`, and perhaps the `score` that a teacher gives it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from papers.cross_encoder.family import RerankerModelPart
from rewriter.examples import read_lines, write_lines
from rewriter.families import Features
from rewriter.protocol import Conversation, ExampleError, Message
from text.prompts import AskingLengths, QuestionContext, asking

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage as it was searched for (title, headings and text); `score` is a teacher's logit, where there is one."""

    text: str
    relevant: bool
    score: float | None = None


@dataclass(frozen=True, slots=True)
class RerankExample:
    """A question with passages, at least one relevant and one not; `id` is unique within its file.

    `rewrite` and `words` may be empty.
    """

    id: str = ""
    history: tuple[Message, ...] = ()
    question: str = ""
    rewrite: str = ""
    words: tuple[str, ...] = ()
    source: str = ""
    passages: tuple[RankedPassage, ...] = ()

    @property
    def conversation(self) -> Conversation:
        """The history as a rewriter takes it."""
        return Conversation(self.history)

    @property
    def dialog(self) -> str:
        """The conversation it belongs to, as far as its id tells."""
        return self.id.rpartition("#")[0] or self.id


def write_rows(path: Path, rows: Iterable[RerankExample]) -> int:
    """Write rows that `read_rows` reads back; how many there were."""
    return write_lines(path, map(asdict, rows))


def read_rows(path: Path) -> Iterator[RerankExample]:
    """Every row of a JSONL file, in its order.

    Raises ExampleError, naming file and line, for what is no such row, and for a file that cannot be read.
    """
    return (_row(line, where, path.stem) for where, line in read_lines(path))


def _row(line: str, where: str, source: str) -> RerankExample:
    try:
        row = _ROW.validate_json(line)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ExampleError(
            f"{where} is no row to train a cross-encoder on ({'.'.join(map(str, problem['loc']))}: {problem['msg']}): "
            "`python -m papers.cross_encoder rows` writes such rows."
        ) from error
    if not row.question.strip():
        raise ExampleError(f"{where} has no `question`, or an empty one.")
    if {passage.relevant for passage in row.passages} != {True, False}:
        raise ExampleError(f"{where} needs a passage that is relevant and one that is not.")
    return replace(row, id=row.id or where, source=row.source or source)


_ROW = TypeAdapter(RerankExample)
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
        return (text, len(offsets)) if len(offsets) <= tokens else (text[: offsets[tokens - 1][1]], tokens)

    def asked(self, example: RerankExample, *, standalone: bool) -> str:
        """The question's side of its pairs."""
        if standalone:
            return asking(example.rewrite, QuestionContext(), self._lengths, self.cut)
        before, answer = example.conversation.last_exchange()
        context = QuestionContext(" ".join(example.words), before, answer)
        return asking(example.question, context, self._lengths, self.cut)

    def group(self, question: str, passages: Sequence[RankedPassage], tokens: int) -> RankedGroup:
        """Pairs of the question's side and each passage, which is cut to so many tokens."""
        encoded = self._tokenizer.encode_batch([(question, self.cut(passage.text, tokens)[0]) for passage in passages])
        scores = tuple(passage.score for passage in passages if passage.score is not None)
        return RankedGroup(
            tuple((tuple(encoding.ids), tuple(encoding.type_ids)) for encoding in encoded),
            tuple(passage.relevant for passage in passages),
            scores if len(scores) == len(passages) else None,
        )


def rerank_features(
    examples: Sequence[RerankExample], reader: PairReader, part: RerankerModelPart, seed: int, train: bool
) -> Features:
    """Groups of the examples. Training rows draw new passages in each epoch; held-out rows keep all."""

    def make(epoch: int) -> list[tuple[RerankExample, str]]:
        return [(example, f"{seed}:{epoch}:{example.id}") for example in examples]

    def length(item: tuple[RerankExample, str]) -> int:
        """Tokens are four characters or so; batches need no more than that."""
        passages = item[0].passages
        return sum(min(len(passage.text), 4 * part.passage_tokens) for passage in passages) // len(passages)

    def read(item: tuple[RerankExample, str]) -> RankedGroup:
        example, rng = item[0], random.Random(item[1])
        passages = list(example.passages)
        if train:
            relevant = [passage for passage in passages if passage.relevant]
            others = [passage for passage in passages if not passage.relevant]
            passages = [rng.choice(relevant), *rng.sample(others, min(part.group - 1, len(others)))]
        has_rewrite = bool(example.history and example.rewrite)
        standalone = train and has_rewrite and rng.random() < part.standalone
        return reader.group(reader.asked(example, standalone=standalone), passages, part.passage_tokens)

    return Features(make, length, read)
