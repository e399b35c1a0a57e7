"""Whether a passage says something else than a statement of an answer: a number, a name, a negation is turned.

Words cannot tell: a sentence with the next row's number has all of its words. So a small model reads each statement of
a generated answer beside the sentence of a cited passage that shares most words with it, and its neighbours. What it
says is joined with the lexical score of `server.turn.support`. `papers/contradiction` trains the model, and
`docs/lab/citations.md` says what it is worth. Without its files the lexical score stands alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from server.turn.events import SupportEvent
from server.turn.support import SUPPORTED, Judged, SupportScorer

if TYPE_CHECKING:
    from index.encoders import OnnxModel

_LINK = regex.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)(?:\{[^{}\n]*\})?")
_REFERENCE = regex.compile(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]|\{[:#.][^{}\n]*\}")
_TAG = regex.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]{0,200}>", regex.DOTALL)
_FRAME = regex.compile(
    r"^\s*(?:[-*+>•|]\s+|#{1,6}\s+|\d{1,3}[.)]\s+|(?:!!!|\?\?\?\+?|:::|///)[^\n]*|(?:```|~~~)\w*)+", regex.MULTILINE
)
_STRESS = regex.compile(r"(?<!\w)(?:\*\*|__|[*_])(?=\S)|(?<=\S)(?:\*\*|__|[*_])(?!\w)")
_TERM = regex.compile(r"`[^`\n]{2,60}`|(?<![\w`/-])--?[a-z][a-z0-9-]+(?![\w`])")
_ENDS = (".", "!", "?", ":", ";", "。", "！", "？")

WINDOW = 192
"""Tokens of a pair at most; of a longer one the evidence's end is not read."""
SENTENCE_CHARACTERS = 400
"""So much of the sentence that speaks of the same things is read."""
BESIDE_CHARACTERS = 120
"""So much of each sentence beside it."""
QUESTION_CHARACTERS = 160


def plain(text: str) -> str:
    """Markdown as words on one line: no links, tags, bullets or stress; code keeps its back quotes."""
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _REFERENCE.sub(lambda match: match[1] or "", text)
    return " ".join(_STRESS.sub("", _FRAME.sub("", text)).split())


def evidence_text(heading: str, sentences: Sequence[str], own: int) -> str:
    """What the model reads of a passage: the nearest heading, the sentence at place `own`, and one on either side."""
    before = plain(sentences[own - 1])[-BESIDE_CHARACTERS:] if own else ""
    after = plain(sentences[own + 1])[:BESIDE_CHARACTERS] if own + 1 < len(sentences) else ""
    parts = (plain(heading), before, plain(sentences[own])[:SENTENCE_CHARACTERS], after)
    return " ".join(part if part.endswith(_ENDS) else f"{part}." for part in parts if part)


def statement_text(statement: str, question: str = "") -> str:
    """What the model reads of an answer: the statement, behind the question that it answers, where there is one."""
    asked = plain(question)[-QUESTION_CHARACTERS:].rstrip(" ?.!")
    return f"{asked}? {plain(statement)}" if asked else plain(statement)


ONNX_FILE, DESCRIPTION = "model.onnx", "support.json"
FORMAT = 1
READINGS = 12
"""Pairs that are read of one answer at most: some 100 ms on two cores."""
CONTRADICTED = 0.5
"""From this chance on, a passage says something else."""
BIAS, LEXICAL, LOST, READ_SUPPORTED, READ_TURNED = -1.0, 2.0, 1.0, 0.5, 0.5
"""Weights of the lexical score, of lost code, and of the two log-odds read; fitted in `docs/lab/citations.md`."""


@dataclass(frozen=True, slots=True)
class PairReading:
    """Chances that the evidence supports the statement, and that it says something else; 0 to 1.

    `lost` tells that the evidence lacks an option, a command or other code that the statement names.
    """

    supported: float
    contradicted: float
    lost: bool = False


class PairModel:
    """A model that reads a statement beside evidence; safe to use from several threads at once.

    `folder` holds what it learned, and `base` the cross-encoder whose lower layers it was trained from, and reads its
    other weights from. Raises ModelUnavailable where `base` is another one, or a file is missing or damaged.
    """

    def __init__(self, folder: Path, base: Path) -> None:
        from index.encoders import OnnxModel
        from index.errors import ModelUnavailable
        from index.rerank import demand_base

        path = folder / DESCRIPTION
        try:
            described = json.loads(path.read_text("utf-8"))
            if described["format"] != FORMAT:
                raise ModelUnavailable(
                    f"{path} has format {described['format']!r}; this version reads format {FORMAT}."
                )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelUnavailable(f"{path} cannot be read ({error!r}): install Anaphora again.") from error
        demand_base(folder, described, base)
        self._model: OnnxModel = OnnxModel(folder / ONNX_FILE, base / "tokenizer.json", WINDOW, base)

    def read(self, statement: str, evidence: str) -> PairReading:
        """What the model says of one pair, each side as `statement_text` and `evidence_text` make it."""
        [encoding] = self._model.tokenize([(statement, evidence)])
        logits = [float(one) for one in self._model.run(encoding)[0]]
        odds = [math.exp(one - max(logits)) for one in logits]
        return PairReading(odds[0] / sum(odds), odds[1] / sum(odds))


def verify(
    statements: Sequence[Judged], scorer: SupportScorer, model: PairModel, question: str = ""
) -> list[SupportEvent]:
    """Judge the statements again by reading them, at most `READINGS` pairs; blocks. Returns the events that changed.

    `question` is the one that is answered, in full. A statement that cites nothing, or stands in a cited passage word
    for word, keeps its judgement. The events keep their offsets: each replaces the one before for the same statement.
    """
    changed, left = list[SupportEvent](), READINGS
    for judged in statements:
        event = judged.event
        cited = [n for n in event.cited if scorer.holds(n)]
        if not cited or left < len(cited) or _is_quoted(scorer, judged.text, cited):
            continue
        left -= len(cited)
        readings = [read_beside(model, scorer, judged.text, question, n) for n in cited]
        score, contradicted = joined(event.score, readings)
        if (score, contradicted) != (event.score, event.contradicted):
            supported = score >= SUPPORTED and not contradicted
            changed.append(
                event.model_copy(update={"score": score, "supported": supported, "contradicted": contradicted})
            )
    return changed


def _is_quoted(scorer: SupportScorer, statement: str, cited: Sequence[int]) -> bool:
    """Whether a cited passage holds the statement as a sentence, word for word."""
    said = plain(statement).rstrip(".")
    return any(plain(text).rstrip(".") == said for n in cited for text in scorer.around(statement, n)[1])


def read_beside(model: PairModel, scorer: SupportScorer, statement: str, question: str, n: int) -> PairReading:
    """What the model reads of a statement beside passage `n`."""
    evidence = evidence_text(*scorer.around(statement, n))
    reading = model.read(statement_text(statement, question), evidence)
    held = f"{evidence} {question}".casefold()
    return replace(reading, lost=any(term[0].strip("`").casefold() not in held for term in _TERM.finditer(statement)))


def joined(score: float, readings: Sequence[PairReading]) -> tuple[float, bool]:
    """The lexical score and what was read beside each cited passage as one score, and whether it is contradicted.

    Passages support a statement together, so the best reading counts; it is contradicted where no passage supports it
    and the best one says something else.
    """
    best = best_reading(readings)
    lost = all(reading.lost for reading in readings)
    read = READ_SUPPORTED * log_odds(best.supported) - READ_TURNED * log_odds(best.contradicted)
    odds = BIAS + LEXICAL * score - LOST * lost + read
    chance = 1 / (1 + math.exp(-odds))
    return round(chance, 3), best.contradicted >= CONTRADICTED and chance < SUPPORTED


def best_reading(readings: Sequence[PairReading]) -> PairReading:
    """The reading that speaks most for the statement."""
    return max(readings, key=lambda reading: reading.supported - reading.contradicted)


def log_odds(chance: float) -> float:
    """The logit of a chance, bounded."""
    return math.log(max(chance, 1e-4) / max(1 - chance, 1e-4))
