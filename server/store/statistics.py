"""Counts over stored turns and traces: what a day held, how long stages took.

Turns of `anaphora diagnose` are not counted."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, case, cast, func, select

from server.access import DIAGNOSIS, Principal
from server.store.records import DayCounts
from server.store.schema import FEEDBACK, TRACES, TURNS, day_of, json_count, json_text, visible

TRACED = 300
"""Traces that stages are timed on, the newest: they are read whole."""


def days(connection: Connection, who: Principal, collection: str, since: float) -> list[DayCounts]:
    """Each day (UTC) since then that had turns, oldest first."""
    status = TURNS.c.status
    rows = connection.execute(
        select(
            day_of(TURNS.c.created).label("day"),
            func.count().label("turns"),
            _how_many(status == "asked").label("asked"),
            _how_many(status == "refused").label("refused"),
            _how_many(is_doubted(TURNS.c.ending)).label("doubted"),
            _how_many(is_folded(TURNS.c.ending)).label("folded"),
            _how_many(status.in_(("failed", "interrupted"))).label("failed"),
            _how_many(FEEDBACK.c.rating == "down").label("rated_down"),
            func.sum(json_count(TURNS.c.ending, "support")).label("sentences"),
            func.sum(json_count(TURNS.c.ending, "support", "supported")).label("unsupported"),
            func.sum(contradicted(TURNS.c.ending)).label("contradicted"),
        )
        .join_from(TURNS, FEEDBACK, isouter=True)
        .where(counted(who, collection, since))
        .group_by("day")
        .order_by("day")
    )
    return [DayCounts(**row) for row in rows.mappings()]


def stages(connection: Connection, who: Principal, collection: str, since: float) -> dict[str, list[float]]:
    """Seconds of each stage of the newest traced turns, in the order stages come in; `turn` is a whole one."""
    newest = select(TRACES.c.trace).join(TURNS).where(counted(who, collection, since)).order_by(TURNS.c.n.desc())
    seconds, whole = dict[str, list[float]](), list[float]()
    for trace in map(json.loads, connection.scalars(newest.limit(TRACED))):
        whole.append(trace["seconds"])
        for step in trace["steps"]:
            seconds.setdefault(step["name"], []).append(step["seconds"])
    return {**seconds, "turn": whole} if whole else {}


def found_nothing() -> ColumnElement[bool]:
    """Whether a turn was refused, and by no person who wrote ahead where to ask instead."""
    return and_(TURNS.c.status == "refused", func.coalesce(json_text(TURNS.c.ending, "written"), "") == "")


def is_doubted(ending: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether an answer said itself that it may not answer."""
    return cast(json_text(ending, "doubted"), Text).in_(("1", "true"))


def is_folded(ending: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether quotes replaced the model's text."""
    return json_text(ending, "folded") != ""


def contradicted(ending: ColumnElement[Any]) -> ColumnElement[int]:
    """How many sentences say something else than what they cite."""
    return json_count(ending, "support") - json_count(ending, "support", "contradicted")


def _how_many(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def counted(who: Principal, collection: str, since: float) -> ColumnElement[bool]:
    """Whether a turn counts: ended, begun since then, seen by `who`, about the collection if one is named."""
    condition = and_(TURNS.c.status != "pending", TURNS.c.owner != DIAGNOSIS.id)
    there = and_(TURNS.c.created >= since, condition, visible(TURNS, who))
    return and_(there, TURNS.c.collection == collection) if collection else there
