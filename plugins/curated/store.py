"""Rows of curated answers; `service` decides who may read and write them."""

from __future__ import annotations

import json
import time
from typing import Any

from pydantic import Field
from sqlalchemy import (
    Column,
    Connection,
    Index,
    MetaData,
    RowMapping,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from index.documents import MetadataValue
from server.store.records import View
from server.store.reviewed import MarkedPassage
from server.store.schema import FLAG, NUMBER, SECONDS, TableGroup

_METADATA = MetaData()
_JSON = ("questions", "passages", "scope")

CURATED = Table(
    "curated",
    _METADATA,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("collection", "answer", "keeper", "owner", *_JSON)),
    Column("refuses", FLAG, nullable=False),
    Column("hits", NUMBER, nullable=False),
    *(Column(name, SECONDS, nullable=False) for name in ("created", "updated")),
    *(Column(name, SECONDS) for name in ("expires", "hit")),
    sqlite_strict=True,
)
Index("curated_by_collection", CURATED.c.collection)

TABLES = TableGroup(_METADATA, erased=(CURATED,))


class CuratedAnswer(View):
    """An answer to `questions`, which mean the same. Times are in seconds since the epoch."""

    id: str
    collection: str
    questions: tuple[str, ...]
    answer: str = Field(description="Markdown; markers such as `[1]` cite the passages.")
    refuses: bool = Field(description="Whether it only says where else to ask.")
    passages: tuple[MarkedPassage, ...]
    scope: dict[str, MetadataValue | list[MetadataValue]] = Field(
        description="Only who searches with this filter, or a narrower one, gets it; empty: everybody."
    )
    keeper: str = Field(description="Who keeps it right.")
    owner: str = Field(description="The id of who wrote it.")
    created: float
    updated: float
    expires: float | None = Field(description="It is given until then.")
    hits: int = Field(description="How often it was given.")
    hit: float | None = Field(description="When it was given last.")


def listing(connection: Connection, collection: str, *, at: float | None = None) -> list[CuratedAnswer]:
    """Return the answers of a collection, newest first; with `at` only those that have not expired then."""
    wanted = select(CURATED).where(CURATED.c.collection == collection).order_by(CURATED.c.created.desc(), CURATED.c.id)
    if at is not None:
        wanted = wanted.where(func.coalesce(CURATED.c.expires, at + 1) > at)
    return [_answer(row) for row in connection.execute(wanted).mappings()]


def find(connection: Connection, collection: str, answer_id: str) -> CuratedAnswer | None:
    its = select(CURATED).where(CURATED.c.collection == collection, CURATED.c.id == answer_id)
    row = connection.execute(its).mappings().first()
    return _answer(row) if row else None


def put(connection: Connection, answer: CuratedAnswer) -> None:
    """Keep an answer, in place of the one with its id; what was counted of that one stays."""
    values: dict[str, Any] = answer.model_dump(mode="json", exclude={"hits", "hit"})
    values |= {name: json.dumps(values[name]) for name in _JSON}
    if not connection.execute(update(CURATED).where(CURATED.c.id == answer.id).values(values)).rowcount:
        connection.execute(insert(CURATED), {**values, "hits": 0})


def remove(connection: Connection, collection: str, answer_id: str) -> bool:
    """Forget an answer; False where there is none."""
    its = delete(CURATED).where(CURATED.c.collection == collection, CURATED.c.id == answer_id)
    return connection.execute(its).rowcount > 0


def count_hit(connection: Connection, answer_id: str) -> None:
    its = update(CURATED).where(CURATED.c.id == answer_id)
    connection.execute(its.values(hits=CURATED.c.hits + 1, hit=time.time()))


def _answer(row: RowMapping) -> CuratedAnswer:
    return CuratedAnswer(**{**row, **{name: json.loads(row[name]) for name in _JSON}})
