"""Why answers are wrong: questions with known answers asked, failures traced to the stage that lost the answer.

A finding names the stage at which an answer went wrong, confirmed by putting right what this stage had to give; it is
kept as an evaluation run. The caller asks the turns and plays them again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import regex

from evaluation.answers import AnsweredTurn, plain, rate, show
from evaluation.metrics import token_f1
from evaluation.questions import (
    BadRow,
    EvaluationError,
    JudgedQuestion,
    Quote,
    document_id,
    read_questions,
    relevant,
    spans,
)
from evaluation.report import STAGES, html
from evaluation.run_folder import EvaluationRun, InputLine, Row, RunWriter, finished_rows, make_rows, metrics_of
from evaluation.sets import EvalSet
from rewriter.examples import normalised
from rewriter.protocol import Message
from server.turn.system_messages import NEAREST_INSTEAD, history_for_model
from text.files import write_json
from text.languages import everywhere
from text.prompts import fill, load_prompt
from text.sanitize import escape
from text.words import numbers, stems

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.collection import Collection
    from index.documents import Passage
    from server.settings import Settings


TWIN_WORDS = 6
"""A quote of so many words answers in any document that holds it; a shorter one may stand elsewhere by chance."""
HOLDS = 0.8
"""A passage with this share of an answer's words holds the answer, where no quote says which does."""
MOST_PASSAGES = 3


def read_gold(path: Path) -> list[JudgedQuestion]:
    """The questions of a file. One without an answer and without a quote is not answered in the documents.

    Raises BadRow or MissingSet as `read_questions`, and BadRow for a question that only names where its answer stands.
    """
    golds = []
    for gold in read_questions(path):
        answerable = bool(gold.question.answer or gold.quotes)
        if not answerable and (gold.documents or gold.relevant):
            raise BadRow(
                f'{path}: {gold.question.id} names where the answer stands, and neither "answer" nor "quotes" says '
                "what it is."
            )
        answerability = "answerable" if answerable else "unanswerable"
        golds.append(replace(gold, question=replace(gold.question, answerability=answerability)))
    return golds


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """Where one part of an answer stands: stretches of documents and ids of passages; nowhere if there are none."""

    quote: Quote
    stretches: tuple[tuple[str, int, int], ...]
    passages: tuple[str, ...]

    def held(self, evidence: Sequence[Any]) -> bool:
        """Whether one of these passages (`document_id`, `passage_id`, `start`, `end`, `text`) holds it."""
        return any(
            row["passage_id"] in self.passages
            or (
                bool(self.quote.text and len(self.quote.text.split()) >= TWIN_WORDS)
                and bool(spans(row["text"], self.quote.text))
            )
            or any(
                document == row["document_id"]
                and 2 * (min(end, row["end"]) - max(start, row["start"])) >= min(end - start, row["end"] - row["start"])
                for document, start, end in self.stretches
            )
            for row in evidence
        )


class GoldIndex:
    """Finds answers in a collection; its texts are read once, when they are first needed."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._known = {document.id for document in collection.documents()}
        self._texts: dict[str, str] = {}
        self._passages: dict[str, list[Passage]] = {}

    def places(self, gold: JudgedQuestion) -> list[GoldPlace]:
        """Where each quote stands, or else the answer; all of them are needed. None for an unanswerable question."""
        if gold.quotes:
            return [self._quoted(quote) for quote in gold.quotes]
        if gold.question.answer:
            return [self._answered(gold)]
        return []

    def _quoted(self, quote: Quote) -> GoldPlace:
        own = document_id(quote.document, self._known)
        names = [own] if own else []
        if not quote.document or len(quote.text.split()) >= TWIN_WORDS:
            names += sorted(self._known - {own})
        stretches, passages = list[tuple[str, int, int]](), list[str]()
        for name in names:
            if matches := spans(self._text(name), quote.text):
                held = relevant(self._of(name), matches)
                passages += held
                stretches += [(name, *place) for place in matches if held]
        return GoldPlace(quote, tuple(stretches), tuple(passages))

    def _answered(self, gold: JudgedQuestion) -> GoldPlace:
        """The passages with most of the answer's words, in the documents that are named, if any."""
        names = [name_or_none for document in gold.documents if (name_or_none := document_id(document, self._known))]
        if gold.relevant:
            there = [
                passage.id for name in names or self._known for passage in self._of(name) if passage.id in gold.relevant
            ]
            return GoldPlace(Quote("", ""), (), tuple(there))
        wanted = frozenset(stems(gold.question.answer))
        every = names if gold.documents else sorted(self._known)
        scored = [
            (len(wanted & held) / max(1, len(wanted)), passage, n) for name in every
            for n, (passage, held) in enumerate(self._stems[name])
        ]  # fmt: skip
        best = sorted((pair for pair in scored if pair[0] >= HOLDS), key=lambda pair: (-pair[0], pair[2]))
        return GoldPlace(Quote("", ""), (), tuple(passage for _, passage, _ in best[:MOST_PASSAGES]))

    @cached_property
    def _stems(self) -> dict[str, list[tuple[str, frozenset[str]]]]:
        return {
            name: [(passage.id, frozenset(stems(passage.text))) for passage in self._of(name)] for name in self._known
        }

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self._collection.document(name).text
        return self._texts[name]

    def _of(self, name: str) -> list[Passage]:
        if name not in self._passages:
            self._passages[name] = self._collection.passages(name)
        return self._passages[name]


Label: TypeAlias = Literal[
    "false negative", "false positive", "hallucination", "missing detail", "irrelevant detail", "wrong question"
]
_QUOTED = regex.compile(r"^> ?", regex.MULTILINE)
RIGHT_F1 = 0.5
HELD = 0.6
"""Share of an answer's words that say it, if its numbers are there too."""
PARTLY = 0.3
BURIED, BURIED_WORDS = 0.1, 60
"""An answer of which less is asked for, in so many words more than it takes, buries what is asked for."""
JUDGED_RIGHT = 3.5
CRITERION = "does the answer say what the expected answer says, without contradicting it?"


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """Verdict on one answer. `f1` compares it with the gold answer; `label` says what is wrong, empty where right."""

    right: bool
    f1: float
    label: Label | Literal[""] = ""
    judged: float | None = None
    """A judge's score from 1 to 5."""


def verdict(gold: JudgedQuestion, turn: AnsweredTurn, judge: BaseChatModel | None = None) -> AnswerVerdict:
    """Of a turn that ended; blocks while a judge thinks."""
    silent = turn.status in ("asked", "refused")
    if gold.question.answerability == "unanswerable":
        made_up = turn.status == "answered" and _unsupported(turn)
        return AnswerVerdict(silent, float(silent), "" if silent else "hallucination" if made_up else "false positive")
    if silent:
        return AnswerVerdict(False, 0.0, "false negative")
    answer = own_text(turn)
    expected = gold.question.answer or " ".join(quote.text for quote in gold.quotes)
    f1, held = token_f1(answer, expected), held_in(expected, answer, context=gold.question.text)
    quoted = turn.status == "quoted" and all(held_in(quote.text, answer) >= HELD for quote in gold.quotes or ())
    right = (bool(gold.quotes) and quoted) or _says(expected, answer, f1, held)
    score = None
    if judge is not None and turn.status == "answered":
        system = fill(load_prompt("evaluation", "rubric").text, {"criterion": CRITERION})
        parts = {"question": gold.question.text, "expected": expected, "answer": answer}
        escaped = {name: escape(text) for name, text in parts.items()}
        score, _ = rate(judge, system, fill(load_prompt("evaluation", "rubric_gold").text, escaped))
        right = right if score is None else score >= JUDGED_RIGHT
    longer = len(answer.split()) - len(expected.split())
    if right and score is None and turn.status == "answered" and longer > BURIED_WORDS and f1 < BURIED:
        return AnswerVerdict(False, f1, "irrelevant detail", score)
    if right:
        return AnswerVerdict(True, f1, "", score)
    if turn.status == "answered" and _unsupported(turn):
        return AnswerVerdict(False, f1, "hallucination", score)
    partly = len(frozenset(stems(expected)) & frozenset(stems(answer))) >= PARTLY * len(frozenset(stems(expected)))
    return AnswerVerdict(False, f1, "missing detail" if partly else "wrong question", score)


def own_text(turn: AnsweredTurn) -> str:
    """The answer without markers, signs of quotation, and what the server says in its own words."""
    answer = turn.answer
    for text in everywhere(NEAREST_INSTEAD):
        # What nothing supports is no history, but it was said.
        answer = answer.replace(f"\n\n{text}\n\n", "\n\n")
    # So were quotes that are told with a doubt.
    messages = history_for_model([Message("assistant", answer)]).as_heard().messages
    return _QUOTED.sub("", plain(messages[0].text)) if messages else ""


def held_in(text: str, within: str, context: str = "") -> float:
    """The share of the words of `text` that `within` has; 0 where a number of it is missing.

    Words that are `known` already, for the question says them, count only where there are no others.
    """
    wanted = frozenset(stems(text))
    wanted = wanted - frozenset(stems(context)) or wanted
    if numbers(text) - numbers(within):
        return 0.0
    return len(wanted & frozenset(stems(within))) / len(wanted) if wanted else float(text.strip() in within)


def _says(expected: str, answer: str, f1: float, held: float) -> bool:
    first = [text.casefold().split(maxsplit=1)[0].strip(",.:;!") if text.strip() else "" for text in (expected, answer)]
    opposite = sorted(first) == ["no", "yes"]
    lost = bool(numbers(expected) - numbers(answer))
    return not opposite and not lost and (held >= HELD or (f1 >= RIGHT_F1 and held >= PARTLY))


def _unsupported(turn: AnsweredTurn) -> bool:
    """Whether half of what was written, or more, is in none of the passages."""
    return bool(turn.support) and 2 * sum(not statement["supported"] for statement in turn.support) >= len(turn.support)


Stage: TypeAlias = Literal["extraction", "rewriting", "selection", "generation"]


class OracleTurns(Protocol):
    """Asks questions as a chat does, and plays turns again with one thing put right.

    A turn that cannot be played comes back with the status `error`.
    """

    async def ask(self, gold: JudgedQuestion) -> AnsweredTurn:
        """The question as it stands."""

    async def again(
        self,
        gold: JudgedQuestion,
        turn: AnsweredTurn,
        *,
        rewrite: str = "",
        add: Sequence[str] = (),
        alone: bool = False,
    ) -> AnsweredTurn:
        """The turn as if the rewriter had said `rewrite`, or with the passages `add` first; `alone`: none but these."""


@dataclass(frozen=True, slots=True)
class StageFinding:
    """Where a turn failed. `oracle` says what was put right, and `answer` what was answered then."""

    stage: Stage
    confirmed: bool
    oracle: str
    answer: str = ""


async def attributed(
    gold: JudgedQuestion,
    turn: AnsweredTurn,
    places: Sequence[GoldPlace],
    turns: OracleTurns,
    judged: Callable[[AnsweredTurn], AnswerVerdict],
) -> StageFinding:
    """Where a wrong answer went wrong, confirmed or not by at most two further turns."""

    def found(stage: Stage, then: AnsweredTurn, oracle: str, *, mends: bool = True) -> StageFinding:
        if then.status == "error":
            return StageFinding(stage, False, f"{oracle}: {then.problem}")
        return StageFinding(stage, judged(then).right is mends, oracle, own_text(then))

    passages = list(dict.fromkeys(passage for place in places for passage in place.passages))
    if not all(place.passages for place in places):
        return StageFinding("extraction", True, "nothing: what is in no passage cannot be found")
    if places and all(place.held(turn.passages) for place in places):
        alone = await turns.again(gold, turn, add=passages, alone=True)
        return found("generation", alone, "the right passages alone as evidence", mends=False)
    # A question without a history needs no rewriting: it stands alone as it is.
    standalone = gold.question.rewrite or ("" if gold.question.conversation else gold.question.text)
    if standalone and normalised(standalone) != normalised(turn.searched):
        then = await turns.again(gold, turn, rewrite=standalone)
        recovered = bool(places) and all(place.held(then.passages) for place in places)
        if then.status != "error" and (recovered or judged(then).right):
            return found("rewriting", then, f"searched for “{standalone}”")
    if not places:
        has_standalone = bool(standalone)
        return StageFinding(
            "generation", has_standalone, "nothing: what is not answered is not lost before" if has_standalone else ""
        )
    added = await turns.again(gold, turn, add=passages)
    return found("selection", added, "the right passages added to the evidence")


KIND = "diagnosis"
FAILURES = "failures.jsonl"
AWAY = 3
"""After so many turns in a row that ended in an error nothing more is asked."""

Bar: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""Opens a bar of progress for so many things; what it gives is called after each."""


@dataclass(frozen=True, slots=True)
class DiagnosisPlan:
    """Identity of a diagnosis: the file's `name`, the collection and its version, the answering model, a digest of
    settings."""

    name: str
    collection: str
    version: str
    model: str
    settings: str
    judge: str = ""


CHARS = 2000


def cut(text: str) -> str:
    """As much of a text as a report shows."""
    return text if len(text) <= CHARS else f"{text[:CHARS]}…"


def open_diagnosis(folder: Path, plan: DiagnosisPlan) -> RunWriter:
    """The run in `folder`, begun or gone on with. Raises EvaluationError where something else lies there."""
    path = folder / "plan.json"
    if path.is_file():
        if json.loads(path.read_text("utf-8")) != asdict(plan):
            raise EvaluationError(
                f"{folder} holds a diagnosis of another file, collection, model or settings, or the documents have "
                "changed since: name another folder with --out."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise EvaluationError(f"{folder} holds something else; name a new folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(plan))
    return RunWriter(folder, KIND)


async def ask_all(
    golds: Sequence[JudgedQuestion], turns: OracleTurns, writer: RunWriter, plan: DiagnosisPlan, at_once: int, bar: Bar
) -> dict[str, AnsweredTurn]:
    """Every question's turn, those kept before included; a turn that ended in an error is asked again.

    Raises EvaluationError where nothing but errors comes.
    """
    lines = [InputLine(gold.question.id, gold) for gold in golds]
    partial = writer.path(plan.name, "asked.jsonl")
    done = {name: row for name, row in finished_rows(partial, lines, "ask").items() if row["status"] != "error"}
    failed = 0

    async def make(line: InputLine[JudgedQuestion]) -> Row:
        nonlocal failed
        turn = await turns.ask(line.asked)
        failed = failed + 1 if turn.status == "error" else 0
        if failed >= AWAY:
            raise EvaluationError(f"{turn.problem} That was {AWAY} times in a row; the same command goes on.")
        return asdict(turn)

    with bar("asking", len(lines) - len(done)) as advance:
        rows = await make_rows(lines, done, partial, "ask", make, at_once=at_once, advance=advance)
    return {name: AnsweredTurn(**row) for name, row in rows.items()}


async def judge_turns(
    golds: Sequence[JudgedQuestion],
    asked_turns: Mapping[str, AnsweredTurn],
    index: GoldIndex,
    turns: OracleTurns,
    writer: RunWriter,
    plan: DiagnosisPlan,
    judge: BaseChatModel | None,
    bar: Bar,
) -> dict[str, Row]:
    """Every question with what its turn is worth, and where it failed if it did; what was kept before is not redone."""
    ended = [gold for gold in golds if asked_turns[gold.question.id].status != "error"]
    lines = [
        InputLine(question.question.id, (question, asked_turns[question.question.id].turn_id)) for question in ended
    ]
    partial = writer.path(plan.name, "judged.jsonl")
    done = finished_rows(partial, lines, "judge")

    async def make(line: InputLine[tuple[JudgedQuestion, str]]) -> Row:
        gold = line.asked[0]
        turn = asked_turns[line.id]
        judgement = await asyncio.to_thread(verdict, gold, turn, judge)
        row = _row(gold, turn) | {
            "right": judgement.right,
            "label": judgement.label,
            "f1": judgement.f1,
            "judged": judgement.judged,
        }
        if judgement.right:
            return row
        places = await asyncio.to_thread(index.places, gold)
        finding = await attributed(gold, turn, places, turns, lambda then: verdict(gold, then, judge))
        held = [passage["n"] for passage in turn.passages if any(place.held([passage]) for place in places)]
        return row | {**asdict(finding), "answer": row["answer"], "oracle_answer": cut(finding.answer), "holding": held}

    with bar("judging", len(lines) - len(done)) as advance:
        return await make_rows(lines, done, partial, "judge", make, advance=advance)


def _row(gold: JudgedQuestion, turn: AnsweredTurn) -> Row:
    """Return the values a person needs to understand a failure."""
    question = gold.question
    return {
        "id": question.id,
        "question": cut(question.text),
        "history": [f"{message.role}: {cut(message.text)}" for message in question.conversation.messages[-4:]],
        "search_question": cut(turn.searched),
        "rewrite": cut(question.rewrite),
        "expected": cut(question.answer),
        "quotes": [{"document": quote.document, "quote": cut(quote.text)} for quote in gold.quotes],
        "status": "asked back" if turn.status == "asked" else turn.status,
        "answer": cut(own_text(turn)),
        "evidence": [
            " › ".join((passage["title"] or passage["document_id"], *passage["heading"])) for passage in turn.passages
        ],
        "trace": turn.turn_id,
    }


def write_diagnosis(
    golds: Sequence[JudgedQuestion],
    turns: Mapping[str, AnsweredTurn],
    judged: Mapping[str, Row],
    writer: RunWriter,
    plan: DiagnosisPlan,
    settings: Settings,
) -> EvaluationRun:
    """Write failures, measures and the report; all of it can be written again."""
    rows = [judged[gold.question.id] for gold in golds if gold.question.id in judged]
    by_id = {gold.question.id: gold.question for gold in golds}
    scores = {str(row["id"]): _scores(row) for row in rows}
    if scores:
        writer.write_scores(plan.name, plan.model, "turn", scores)
        writer.metrics += metrics_of(plan.name, "turn", plan.model, scores, by_id)
    for name, turn in turns.items():
        if turn.status == "error":
            writer.notes.append(f"{name} was not judged, its turn ended in an error: {turn.problem}")
    order = list(STAGES)
    failures = sorted((_failure(row) for row in rows if not row["right"]), key=lambda row: order.index(row["stage"]))
    writer.write_rows(failures, FAILURES)
    chosen = EvalSet(plan.name, tuple(by_id.values()))
    show(chosen, plan.model, turns, writer)
    run = writer.finish(settings, collection=plan.collection, gold=plan.name, questions=len(golds))
    writer.path("report.html").write_text(html(run), "utf-8")
    return run


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    at = {stage: float(row.get("stage") == stage) for stage in STAGES}
    return {"right": float(row["right"]), "token F1": row["f1"], "refused": float(row["status"] == "refused")} | at


def _failure(row: Mapping[str, Any]) -> dict[str, Any]:
    first = {name: row[name] for name in ("id", "stage", "label", "confirmed")}
    return first | {name: value for name, value in row.items() if name not in first and name != "right"}
