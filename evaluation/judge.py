"""A language model as judge of answers, in the manner of G-Eval (Liu et al. 2023).

One number from 1 to 5 for each criterion, each asked for alone; where the model tells log probabilities, the
score is the mean over the numbers weighted by them, else the number it wrote. The rubric is a file of its own,
and every prompt is kept beside its score, so that a reader can judge the judge. A model's judgement is no
person's: small models hardly tell 3 from 5.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from evaluation.questions import Question, json_rows
from rewriter.prompts import Prompt, load_prompt
from text.sanitize import escape, fill

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from evaluation.answers import AnsweredTurn

CRITERIA = {
    "faithful": "is everything the answer says said by the passages too?",
    "relevant": "does the answer answer the question that was asked, as the conversation means it?",
    "complete": "does the answer say what the passages hold about the question, leaving out nothing of importance?",
}
HISTORY = 4
CHARS = 1500
_NUMBER = regex.compile(r"[1-5]")


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """One score from 1 to 5, and everything it was asked with."""

    criterion: str
    score: float
    said: str
    system: str
    prompt: str
    rubric: str
    """Version of the rubric."""


def rubric() -> Prompt:
    """The instruction of the judge, with a place for the criterion."""
    return load_prompt("evaluation", "rubric")


def judge(model: BaseChatModel, question: Question, turn: AnsweredTurn) -> list[JudgeVerdict]:
    """A verdict for each criterion; one whose answer holds no number from 1 to 5 is left out."""
    return judged_as(model, CRITERIA, "rubric_turn", _parts(question, turn))


def judged_as(
    model: BaseChatModel, criteria: Mapping[str, str], name: str, parts: Mapping[str, str]
) -> list[JudgeVerdict]:
    """Verdicts on whatever the prompt of that name shows; its `parts` are escaped here."""
    from langchain_core.messages import HumanMessage, SystemMessage

    rules = rubric()
    package, _, short = name.rpartition(":")
    prompt = fill(load_prompt(package or "evaluation", short).text, {key: escape(text) for key, text in parts.items()})
    verdicts = []
    for criterion, rubric_text in criteria.items():
        system = fill(rules.text, {"criterion": rubric_text}, missing="{{{{{}}}}}".format)
        reply = model.bind(logprobs=True, top_logprobs=10, max_tokens=4).invoke(
            [SystemMessage(system), HumanMessage(prompt)]
        )
        score = expected(reply.response_metadata.get("logprobs"))
        if score is None:
            written = _NUMBER.search(reply.text)
            score = float(written.group()) if written else None
        if score is not None:
            verdicts.append(JudgeVerdict(criterion, score, reply.text, system, prompt, rules.version))
    return verdicts


def expected(logprobs: object) -> float | None:
    """The mean number of the first token that can be one, weighted by probability; None where none can."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    for token in tokens or ():
        weights: dict[int, float] = {}
        for option in token.get("top_logprobs") or ():
            text = str(option["token"]).strip()
            if len(text) == 1 and text in "12345":
                weights[int(text)] = weights.get(int(text), 0.0) + math.exp(option["logprob"])
        if weights and str(token.get("token", "")).strip() in tuple("12345"):
            return sum(number * weight for number, weight in weights.items()) / sum(weights.values())
    return None


def _parts(question: Question, turn: AnsweredTurn) -> dict[str, str]:
    history: Sequence[str] = [
        f"{message.role}: {message.text}" for message in question.conversation.messages[-HISTORY:]
    ]
    passages = [f"[{passage['n']}] {passage['title']}\n{passage['text']}" for passage in turn.passages]
    return {
        "conversation": "\n".join(history)[-CHARS:],
        "question": question.text,
        "passages": "\n\n".join(passages)[: 4 * CHARS],
        "answer": turn.answer,
    }


def judge_all(
    model: BaseChatModel,
    questions: Sequence[Question],
    turns: Mapping[str, AnsweredTurn],
    path: Path,
    progress: Callable[[str, int, int], None],
) -> dict[str, dict[str, float]]:
    """The scores of every answered turn, by question and criterion; verdicts are kept in `path` as they come.

    Verdicts that are there already, by the same rubric over the same answer, are not asked for again.
    """
    rows = json_rows(path) if path.is_file() else ()
    keys = {name: _key(turn) for name, turn in turns.items()}
    cached = {row["id"]: row["verdicts"] for _, row in rows if row.get("key") == keys.get(row["id"])}
    wanted = [q for q in questions if q.id in turns and turns[q.id].status == "answered"]
    with path.open("a", encoding="utf-8") as file:
        for done, question in enumerate(wanted):
            if question.id in cached:
                continue
            progress("judging", done, len(wanted))
            turn = turns[question.id]
            cached[question.id] = [asdict(verdict) for verdict in judge(model, question, turn)]
            row = {"id": question.id, "key": keys[question.id], "verdicts": cached[question.id]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
    scores = {
        name: {f"judge: {verdict['criterion']}": verdict["score"] for verdict in verdicts}
        for name, verdicts in cached.items()
    }
    return {name: values for name, values in scores.items() if len(values) == len(CRITERIA)}


def _key(turn: AnsweredTurn) -> str:
    return hashlib.sha256(f"{rubric().version}\n{turn.answer}".encode()).hexdigest()[:16]
