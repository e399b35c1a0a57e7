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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from server.turn.events import SupportEvent
from server.turn.support import SUPPORTED, Judged, SupportScorer, begins_yes_or_no

if TYPE_CHECKING:
    from index.encoders import OnnxModel

_LINK = regex.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)(?:\{[^{}\n]*\})?")
_REFERENCE = regex.compile(r"\[([^\[\]\n]+)\]\[[^\[\]\n]*\]|\{[:#.][^{}\n]*\}")
_TAG = regex.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]{0,200}>", regex.DOTALL)
_FRAME = regex.compile(
    r"^\s*(?:[-*+>•|]\s+|#{1,6}\s+|\d{1,3}[.)]\s+|(?:!!!|\?\?\?\+?|:::|///)[^\n]*|(?:```|~~~)\w*)+", regex.MULTILINE
)
_STRESS = regex.compile(r"(?<!\w)(?:\*\*|__|[*_])(?=\S)|(?<=\S)(?:\*\*|__|[*_])(?!\w)")
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
    """Return the input from a passage: the nearest heading, the sentence at place `own`, and one on either side."""
    before = plain(sentences[own - 1])[-BESIDE_CHARACTERS:] if own else ""
    after = plain(sentences[own + 1])[:BESIDE_CHARACTERS] if own + 1 < len(sentences) else ""
    parts = (plain(heading), before, plain(sentences[own])[:SENTENCE_CHARACTERS], after)
    return " ".join(part if part.endswith(_ENDS) else f"{part}." for part in parts if part)


def statement_text(statement: str, question: str = "") -> str:
    """Return the model's input from an answer: the statement, behind its question if there is one."""
    asked = plain(question)[-QUESTION_CHARACTERS:].rstrip(" ?.!")
    return f"{asked}? {plain(statement)}" if asked else plain(statement)


ONNX_FILE, DESCRIPTION = "model.onnx", "support.json"
FORMAT = 1
READINGS = 12
"""Pairs that are read of one answer at most: some 100 ms on two cores."""
CONTRADICTED = 0.5
"""From this chance on, a passage says something else."""
BIAS, LEXICAL, READ = 1.46, 0.59, 0.67
"""Weights of the lexical score and of the log-odds of support as read; fitted in `docs/lab/citations.md`."""


@dataclass(frozen=True, slots=True)
class PairReading:
    """Chances that the evidence supports the statement, and that it says something else; 0 to 1."""

    supported: float
    contradicted: float


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
        """Score one pair, each side as `statement_text` and `evidence_text` make it."""
        [encoding] = self._model.tokenize([(statement, evidence)])
        logits = [float(one) for one in self._model.run(encoding)[0]]
        odds = [math.exp(one - max(logits)) for one in logits]
        return PairReading(odds[0] / sum(odds), odds[1] / sum(odds))


def verify(
    statements: Sequence[Judged], scorer: SupportScorer, model: PairModel, question: str = ""
) -> list[SupportEvent]:
    """Judge statements by reading them, at most `READINGS` pairs; blocks. Return the events that changed.

    `question` is the one that is answered, in full. The events keep their offsets: each replaces the one before for the
    same statement.
    """
    changed, left = list[SupportEvent](), READINGS
    for judged in statements:
        event = judged.event
        cited = [n for n in event.cited if scorer.holds(n)]
        if not cited or left < len(cited) or not is_read(judged.text, scorer, cited):
            continue
        left -= len(cited)
        readings = [read_beside(model, scorer, judged.text, question, n) for n in cited]
        turned = is_turned(judged.text, scorer, cited)
        score, contradicted = joined(event.score, readings, turned=turned)
        if (score, contradicted) != (event.score, event.contradicted):
            supported = score >= SUPPORTED and not contradicted
            changed.append(
                event.model_copy(update={"score": score, "supported": supported, "contradicted": contradicted})
            )
    return changed


def is_read(statement: str, scorer: SupportScorer, cited: Sequence[int]) -> bool:
    """Return whether the model is asked: not where a cited passage holds the sentence word for word.

    Nor where it begins with *yes* or *no*: the model is wrong about these more often than words are.
    """
    said = plain(statement).rstrip(".")
    held = (text for n in cited for text in scorer.around(statement, n)[1])
    return not begins_yes_or_no(statement) and all(plain(text).rstrip(".") != said for text in held)


def read_beside(model: PairModel, scorer: SupportScorer, statement: str, question: str, n: int) -> PairReading:
    """Read a statement beside passage `n`."""
    return model.read(statement_text(statement, question), evidence_text(*scorer.around(statement, n)))


def joined(score: float, readings: Sequence[PairReading], *, turned: bool = False) -> tuple[float, bool]:
    """Return the lexical score and the readings of each cited passage as one score, and whether it is contradicted.

    Passages support a statement together, so the best reading counts; it is contradicted where no passage supports it
    and the best one says something else. Where words show that it is `turned`, no reading raises the score.
    """
    best = best_reading(readings)
    odds = BIAS + LEXICAL * score + READ * log_odds(best.supported)
    chance = min(1 / (1 + math.exp(-odds)), score if turned else 1.0)
    return round(chance, 3), best.contradicted >= CONTRADICTED and chance < SUPPORTED


def is_turned(statement: str, scorer: SupportScorer, cited: Sequence[int]) -> bool:
    """Return whether words show it: a number that no cited passage has, or a negation on one side alone."""
    return scorer.flips(statement, cited) or scorer.loses_number(statement, cited)


def best_reading(readings: Sequence[PairReading]) -> PairReading:
    """The reading that speaks most for the statement."""
    return max(readings, key=lambda reading: reading.supported - reading.contradicted)


def log_odds(chance: float) -> float:
    """The logit of a chance, bounded."""
    return math.log(max(chance, 1e-4) / max(1 - chance, 1e-4))
