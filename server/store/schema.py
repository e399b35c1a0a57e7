"""The tables, once for every kind of database; the rows that a principal sees; and SQL that dialects write unlike.

Parts of one dialect only (triggers, the index of texts) are in `sqlite.sql` and in plugins; the plugin of another
database adds its forms of SQL with `sqlalchemy.ext.compiler.compiles`. A change of a table is a revision in
`REVISIONS` as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeEngine

from server.access import DEFAULT_GROUP, ROLES, Principal
from server.plugins import parts

if TYPE_CHECKING:
    from alembic.operations import Operations


METADATA = sa.MetaData()


REVISIONS: dict[str, Callable[[Operations], None]] = {
    "0006": lambda _: None,
    "0007": lambda change: change.add_column("turns", sa.Column("opened", sa.Text)),
}
"""What changes the tables of an older database, in order; new ones are made as they stand here."""

NUMBER = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
SECONDS: TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
"""Since the epoch, UTC."""
FLAG = sa.Boolean().with_variant(sa.INTEGER(), "sqlite")


def _table(name: str, *parts: sa.Column[Any] | sa.CheckConstraint) -> sa.Table:
    return sa.Table(name, METADATA, *parts, sqlite_strict=True)


def _texts(*names: str, default: str | None = None) -> list[sa.Column[Any]]:
    """Texts that are always there."""
    filled = None if default is None else sa.text(f"'{default}'")
    return [sa.Column(name, sa.Text, nullable=False, server_default=filled) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, SECONDS, nullable=nullable) for name in names]


def _counts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, NUMBER, nullable=False, server_default=sa.text("0")) for name in names]


def _keys(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, primary_key=True) for name in names]


def _number() -> sa.Column[Any]:
    """The row's number, counted by the database."""
    return sa.Column("n", NUMBER, primary_key=True)


def _one_of(name: str, *values: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{name} IN ({', '.join(map(repr, values))})")


def _of(table: str, name: str, *, key: bool = False, nullable: bool = False) -> sa.Column[Any]:
    """The id of a row with which this one goes."""
    goes = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, sa.Text, goes, primary_key=key, nullable=nullable)


def _ownership() -> list[sa.Column[Any]]:
    """Return the ownership columns: a principal's id ('' if the row has none), and a group."""
    return [*_texts("owner", default=""), *_texts("group_name", default="default")]


CONVERSATIONS = _table(
    "conversations",
    _number(),
    sa.Column("id", sa.Text, unique=True, nullable=False),
    *_texts("title", "collection"),
    *_times("created", "updated"),
    *_ownership(),
    # The one of llm.choices by which it is answered; empty: the server's own model.
    *_texts("model", default=""),
)
sa.Index("conversations_by_update", CONVERSATIONS.c.updated.desc())
sa.Index("conversations_by_owner", CONVERSATIONS.c.owner, CONVERSATIONS.c.updated.desc())

TURNS = _table(
    "turns",
    _number(),
    sa.Column("id", sa.Text, unique=True, nullable=False),
    # A turn without a conversation comes from a client that keeps its own history.
    _of("conversations", "conversation_id", nullable=True),
    *_texts("collection", "question", "status", "runner"),
    *_texts("answer", default=""),
    # `page` is the address that was read, `filter` what the search kept to, `opened` the numbers of the sources that
    # whoever asked looked at.
    *(sa.Column(name, sa.Text) for name in ("search_for", "rewrite", "evidence", "ending", "page", "filter", "opened")),
    *_times("created"),
    *_times("finished", nullable=True),
    *_ownership(),
    # The turn that it follows; turns that follow the same one are versions of each other. None: it begins one.
    sa.Column("parent", sa.Text),
    # Of the versions the one with the highest number is shown, of equals the newest.
    *_counts("chosen"),
    # Follows from these two: whether it lies beside what is shown.
    sa.Column("replaced", FLAG, nullable=False, server_default=sa.false()),
    _one_of("status", "pending", "answered", "quoted", "asked", "refused", "failed", "interrupted"),
)
sa.Index("turns_by_conversation", TURNS.c.conversation_id, TURNS.c.n)
sa.Index("turns_by_owner", TURNS.c.owner)
sa.Index("turns_by_parent", TURNS.c.parent)
_PENDING = sa.text("status = 'pending'")
sa.Index("turns_pending", TURNS.c.runner, sqlite_where=_PENDING, postgresql_where=_PENDING)

FEEDBACK = _table(
    "feedback",
    _of("turns", "turn_id", key=True),
    *_texts("rating", "reason", "comment"),
    *_times("created"),
    *_texts("owner", default=""),
    _one_of("rating", "up", "down"),
)

TRACES = _table("traces", _of("turns", "turn_id", key=True), *_texts("trace"))

KEYS = _table(
    "keys",
    *_keys("id"),
    *_texts("name"),
    sa.Column("hash", sa.Text, unique=True, nullable=False),
    *_times("created"),
    *_times("used", "revoked", "expires", nullable=True),
    *_texts("role", default="operator"),
    *_texts("groups", default='["*"]'),
    _one_of("role", *ROLES),
)

SESSIONS = _table(
    "sessions",
    *_keys("hash"),
    *_texts("principal"),
    _of("keys", "key_id", nullable=True),
    *_times("expires"),
    # What the provider said about a person when the session began: it is shown to it when the person leaves.
    *_texts("id_token", default=""),
)

GRANTS = _table("grants", *_keys("collection", "group_name"), *_times("created"))
"""Which groups may use a collection; one without any row belongs to the group `default`."""

JOBS = _table(
    "jobs",
    *_keys("id"),
    *_texts("kind", "collection", "state", "runner"),
    # What a worker needs to know of a job that is left to workers; empty for those of one process.
    *_texts("stage", "message", "payload", default=""),
    *_texts("files", default="[]"),
    # The first two say how far it is, the third the order in which jobs were added: clocks go back. The last counts the
    # workers that have ended during the job.
    *_counts("done", "total", "n", "attempts"),
    *_times("created", "updated"),
    *_ownership(),
)
sa.Index("jobs_by_creation", JOBS.c.created.desc())

SOURCES = _table("sources", *_keys("collection", "path"), *_times("added"))
"""Where a collection's documents came from, so that it can be indexed again."""

UPLOADS = _table(
    "uploads",
    *_keys("collection", "name"),
    *_texts("owner", "group_name"),
    sa.Column("bytes", NUMBER, nullable=False),
    *_times("created"),
)
"""Files that people handed in: `name` is the file's below the collection's uploads."""

REVIEWS = _table(
    "reviews",
    _number(),
    _of("turns", "turn_id"),
    *_texts("owner", "verdict"),
    *_times("at"),
    *(sa.Column(name, sa.Text) for name in ("rewrite", "passages", "answer")),
    sa.Column("undoes", NUMBER, sa.ForeignKey("reviews.n", ondelete="CASCADE")),
    _one_of("verdict", "corrected", "approved", "rejected", "undone"),
)
sa.Index("reviews_by_turn", REVIEWS.c.turn_id)
sa.Index("reviews_undoing", REVIEWS.c.undoes)

SHARES = _table(
    "shares",
    *_keys("id"),
    sa.Column("hash", sa.Text, unique=True, nullable=False),
    _of("conversations", "conversation_id"),
    *_texts("principal"),
    *_times("created", "expires"),
)
sa.Index("shares_by_conversation", SHARES.c.conversation_id)


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables of a plugin; `folder` holds further statements, in `sqlite.sql` and `postgresql.sql`, if there are any.

    `seeded` names tables whose rows those statements insert. `erased` are tables with `owner` and `collection`: a row
    goes with these, and with a document that it names or quotes.
    """

    metadata: sa.MetaData
    folder: Path | None = None
    seeded: frozenset[str] = frozenset()
    erased: tuple[sa.Table, ...] = ()

    def make(self, connection: sa.Connection) -> None:
        """Make the tables unless they are there."""
        if not sa.inspect(connection).has_table(self.metadata.sorted_tables[0].name):
            self.metadata.create_all(connection, checkfirst=False)
            if self.folder is not None:
                run_statements(connection, self.folder)


def all_tables() -> list[sa.Table]:
    """Return the tables of the store and of its plugins; a table comes after those that it refers to."""
    groups = parts("tables")
    return [table for metadata in (METADATA, *(group.metadata for group in groups)) for table in metadata.sorted_tables]


def erased_tables() -> list[sa.Table]:
    """Return the tables of plugins whose rows go with their owner, their collection and documents."""
    return [table for group in parts("tables") for table in group.erased]


def run_statements(connection: sa.Connection, folder: Path) -> None:
    """Run the statements of a folder that are for the database's dialect; an empty line separates them."""
    for statement in (folder / f"{connection.dialect.name}.sql").read_text("utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)


COUNTING_REVIEWS = REVIEWS.to_metadata(sa.MetaData(), name="counting_reviews")
"""A view: of a turn's reviews the newest that no later one undoes."""

TEXTS = sa.Table(
    "texts",
    sa.MetaData(),
    sa.Column("rowid", NUMBER),
    sa.Column("conversation_id", sa.Text),
    sa.Column("text", sa.Text),
)
"""What can be searched for: row 2n belongs to turn n, row 2n + 1 to conversation n."""


def visible(table: sa.FromClause, who: Principal) -> sa.ColumnElement[bool]:
    """The rows that a principal sees of a table (or its alias) with `owner`, `group_name` and `collection`: those it
    owns, from `agent` on those of its groups too; and of these only what is about collections that are granted to one
    of its groups."""
    conditions = list[sa.ColumnElement[bool]]()
    own: sa.ColumnElement[bool] = table.c.owner == who.id
    if not who.everywhere:
        granted = sa.select(GRANTS.c.collection).where(GRANTS.c.collection == table.c.collection)
        mine = granted.where(GRANTS.c.group_name.in_(who.groups)).exists()
        conditions.append(sa.or_(mine, sa.not_(granted.exists())) if DEFAULT_GROUP in who.groups else mine)
    if not who.has("agent"):
        conditions.append(own)
    elif not who.everywhere:
        conditions.append(sa.or_(own, table.c.group_name.in_(who.groups)))
    return sa.and_(sa.true(), *conditions)


TRIGRAM = 3
"""Shorter words have no trigram and are looked for in every text."""


class json_text(GenericFunction[str]):  # noqa: N801 (functions of SQL are lower case)
    """`json_text(column, name)`: a field of the JSON object in a text; NULL where there is none."""

    type = sa.Text()
    inherit_cache = True


class json_count(GenericFunction[int]):  # noqa: N801
    """`json_count(column, name[, flag])`: items of a list of the JSON object, or those of them whose flag is false."""

    type = sa.Integer()
    inherit_cache = True


class day_of(GenericFunction[str]):  # noqa: N801
    """The day (UTC, `2026-11-22`) of a time."""

    type = sa.Text()
    inherit_cache = True


def _render(element: GenericFunction[Any], compiler: SQLCompiler, form: str, how: dict[str, Any]) -> str:
    return form.format(*(compiler.process(part, **how) for part in element.clauses))


@compiles(json_text)
def _json_text(element: json_text, compiler: SQLCompiler, **how: Any) -> str:
    return _render(element, compiler, "json_extract({0}, '$.' || {1})", how)


@compiles(json_count)
def _json_count(element: json_count, compiler: SQLCompiler, **how: Any) -> str:
    wrong = " WHERE NOT json_extract(one.value, '$.' || {2})" if len(element.clauses) > 2 else ""
    return _render(element, compiler, f"(SELECT count(*) FROM json_each({{0}}, '$.' || {{1}}) one{wrong})", how)


@compiles(day_of)
def _day_of(element: day_of, compiler: SQLCompiler, **how: Any) -> str:
    return _render(element, compiler, "date({0}, 'unixepoch')", how)


def put(connection: sa.Connection, table: sa.Table, *rows: dict[str, object], keep: bool = False) -> None:
    """Insert rows in place of those with the same primary key; with `keep` a row that is there stays."""
    # Loading the one that is not needed takes its time.
    statement = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
    if keep:
        connection.execute(statement.on_conflict_do_nothing(), rows)
    else:
        new = {name: statement.excluded[name] for name in rows[0]}
        connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=new), rows)


def holds_words(connection: sa.Connection, words: list[str]) -> list[sa.ColumnElement[bool]]:
    """The conditions that a text holds every word, in any case and as part of longer words."""
    long = [word for word in words if len(word) >= TRIGRAM]
    if connection.dialect.name != "sqlite" or not long:
        return [TEXTS.c.text.icontains(word, autoescape=True) for word in words]
    short = [word for word in words if word not in long]
    phrases = " ".join('"' + word.replace('"', '""') + '"' for word in long)
    return [sa.literal_column("texts").bool_op("MATCH")(phrases), *holds_words(connection, short)]


def forget_deleted(connection: sa.Connection) -> None:
    """Let the index of texts forget what was deleted, which it otherwise does at some later time."""
    if connection.dialect.name == "sqlite":
        connection.execute(sa.text("INSERT INTO texts (texts) VALUES ('optimize')"))


def groups_of(connection: sa.Connection, collection: str) -> list[str]:
    """The groups a collection was granted to, by name; none where it belongs to `default`."""
    granted = sa.select(GRANTS.c.group_name).where(GRANTS.c.collection == collection).order_by(GRANTS.c.group_name)
    return list(connection.scalars(granted))


def all_grants(connection: sa.Connection) -> dict[str, list[str]]:
    """The groups of every collection that was granted to any."""
    granted, groups = GRANTS.c["collection", "group_name"], dict[str, list[str]]()
    for collection, group in connection.execute(sa.select(*granted).order_by(*granted)):
        groups.setdefault(collection, []).append(group)
    return groups


def grant(connection: sa.Connection, collection: str, group: str) -> None:
    """Grant a collection to a group. One that exists and was granted to nobody stays with `default` only if so said."""
    put(connection, GRANTS, {"collection": collection, "group_name": group, "created": time.time()}, keep=True)


def revoke_grant(connection: sa.Connection, collection: str, group: str) -> bool:
    """Take a grant back; False where there is none, also of the last one: that would open it to `default`."""
    left = [name for name in groups_of(connection, collection) if name != group]
    if not left and group != DEFAULT_GROUP:
        return False
    gone = sa.delete(GRANTS).where(GRANTS.c.collection == collection, GRANTS.c.group_name == group)
    return connection.execute(gone).rowcount > 0
