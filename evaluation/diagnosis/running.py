"""A file of questions diagnosed: each asked once, judged, its failure attributed; kept as an evaluation run.

plan.json               what the folder's questions are asked of, so that nothing else is mixed in
<file>/asked.jsonl      every turn as it came, <file>/judged.jsonl every verdict: an interrupted run goes on from both
failures.jsonl          a line for each failure
report.html             the same for people, by stage
run.json, metrics.json, scores/…   as of any evaluation
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from evaluation.answers import AnsweredTurn, show
from evaluation.diagnosis.gold import GoldIndex
from evaluation.diagnosis.verdicts import OracleTurns, attributed, own_text, verdict
from evaluation.questions import EvaluationError, JudgedQuestion
from evaluation.report import STAGES, html
from evaluation.run_folder import EvaluationRun, InputLine, Row, RunWriter, finished_rows, make_rows, metrics_of
from evaluation.sets import EvalSet
from text.files import write_json

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from server.settings import Settings

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
    chosen = EvalSet(plan.name, None, tuple(by_id.values()))
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
