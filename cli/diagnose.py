"""`anaphora diagnose`: questions with known answers asked as in a chat, and every failure traced to its stage."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.console import progress
from cli.shared.options import Answering, overriding
from cli.shared.resources import demand_collection, fetch_models
from cli.shared.state import InputError, State, state_of
from text.progress import track_progress

if TYPE_CHECKING:
    from evaluation.answers import AnsweredTurn
    from evaluation.questions import JudgedQuestion
    from evaluation.run_folder import EvaluationRun
    from server.chat import ChatService, TurnRequest
    from server.replay import ReplayChanges
    from server.settings import Settings
    from server.turn.events import Event

PATIENCE = 60.0


def diagnose(
    context: typer.Context,
    gold: Annotated[
        Path, typer.Argument(help="Questions with answers, one JSON object a line (docs/operate/diagnose.md).")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the report; the same command goes on with it.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="The collection to ask.")] = "",
    model: Answering = "",
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="A model that says whether answers mean the same, named as --model.")
    ] = "",
) -> None:
    """Ask questions whose answers are known, find the stage at which each failure arose, and write a report.

    Every turn and every verdict is kept as it comes: after an interruption the same command goes on.
    """
    from evaluation.diagnosis import read_gold
    from evaluation.report import failure_counts, failures, headline, table
    from evaluation.retrieval import patient

    state = state_of(context)
    golds = read_gold(gold)
    settings = patient(state.settings(overriding(collection=collection, llm__model=model)), PATIENCE)
    if not settings.trace.content:
        raise InputError(
            "`diagnose` plays its turns again, and with trace.content off none is kept with its texts. Run it with "
            "ANAPHORA_TRACE__CONTENT=true: only the questions of your file are kept then."
        )
    demand_collection(settings)
    fetch_models(settings, state, llm=True)
    judging = state.settings(overriding(llm__model=judge)) if judge else None
    if judging is not None:
        fetch_models(judging, state, encoder=False, reranker=False, llm=True)
    run = asyncio.run(_run(state, settings, judging, golds, gold.stem, out))
    rows = failures(run)
    state.out.print(headline(run, rows))
    if rows:
        counts = failure_counts(rows)
        state.out.print(table(counts.head, counts.rows), soft_wrap=True)
    for note in run.notes:
        state.err.print(f"Note: {note}", style="yellow")
    state.err.print(f"Wrote {out / 'report.html'}.")


async def _run(
    state: State, settings: Settings, judging: Settings | None, golds: list[JudgedQuestion], name: str, out: Path
) -> EvaluationRun:
    from evaluation.diagnosis import DiagnosisPlan, GoldIndex, ask_all, judge_turns, open_diagnosis, write_diagnosis
    from server.access import DIAGNOSIS, at_terminal
    from server.chat import open_service
    from server.engines import open_engine
    from server.settings import PARALLEL

    digest = settings.model_dump_json(include={"index", "retrieval", "rewriter", "llm"}, exclude={"llm": {"api_key"}})
    async with open_service(settings, warm=False) as opened:
        collection = await asyncio.to_thread(opened.core.opened.get, settings.collection)
        answering = settings.llm.model_name or settings.llm.model
        fingerprint = hashlib.sha256(digest.encode()).hexdigest()[:16]
        judge_name = judging.llm.model if judging is not None else ""
        plan = DiagnosisPlan(name, settings.collection, collection.version, answering, fingerprint, judge_name)
        writer, bar = open_diagnosis(out, plan), partial(progress, state.err)
        places = GoldIndex(collection)
        at_once = 1 if answering == "none" else min(PARALLEL, settings.server.concurrent_turns)
        with track_progress(out), ExitStack() as stack:
            turns = ServiceTurns(opened.as_principal(replace(at_terminal(), id=DIAGNOSIS.id)), settings)
            asked_turns = await ask_all(golds, turns, writer, plan, at_once, bar)
            judge = None
            if judging is not None:
                engine = stack.enter_context(open_engine(judging))
                judge = engine.chat_model()
            judged = await judge_turns(golds, asked_turns, places, turns, writer, plan, judge, bar)
            return write_diagnosis(golds, asked_turns, judged, writer, plan, settings)


class ServiceTurns:
    """Turns of the chat service, with their traces in its database; an `OracleTurns`."""

    def __init__(self, service: ChatService, settings: Settings) -> None:
        self._service, self._settings = service, settings

    async def ask(self, gold: JudgedQuestion) -> AnsweredTurn:
        """The question as it stands, the newest of its history as far as a turn takes it."""
        from server.chat import TurnRequest
        from server.chat.running_turn import MAX_HISTORY_MESSAGES

        history = gold.question.conversation.messages[-MAX_HISTORY_MESSAGES:]
        request = TurnRequest(question=gold.question.text, collection=self._settings.collection, history=history)
        return await self._answered(gold, self._events(request))

    async def again(
        self,
        gold: JudgedQuestion,
        turn: AnsweredTurn,
        *,
        rewrite: str = "",
        add: Sequence[str] = (),
        alone: bool = False,
    ) -> AnsweredTurn:
        """The turn with one step changed (`server.replay`)."""
        from server.replay import ReplayChanges

        changes = ReplayChanges(rewrite, tuple(add), alone=alone)
        return await self._answered(gold, self._replayed(turn.turn_id, changes))

    async def _events(self, request: TurnRequest) -> list[Event]:
        return [event async for event in self._service.turns.ask(request)]

    async def _replayed(self, turn_id: str, changes: ReplayChanges) -> list[Event]:
        return (await self._service.turns.replay(turn_id, changes)).events

    async def _answered(self, gold: JudgedQuestion, events: Awaitable[list[Event]]) -> AnsweredTurn:
        """Read the events of a turn into an answer; a refused request is an error of this question alone."""
        from evaluation.answers import AnsweredTurn, answered
        from server.chat import InvalidRequest

        question = gold.question
        try:
            return answered(question, await events)
        except InvalidRequest as refused:
            return AnsweredTurn(question.id, question.text, question.text, "error", "", problem=str(refused))
