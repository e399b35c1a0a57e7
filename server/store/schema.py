"""The tables, once, for every kind of database, and which of their rows a principal sees.

What only one kind has (triggers, the index of texts) is made in `server.store.dialects`. A change of a table is a
revision in `migrations/versions` as well.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    INTEGER,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    FromClause,
    Index,
    MetaData,
    Table,
    Text,
    and_,
    false,
    not_,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.types import TypeEngine

from server.access import DEFAULT_GROUP, Seen

METADATA = MetaData()

NUMBER = BigInteger().with_variant(INTEGER(), "sqlite")
SECONDS: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")
"""Since the epoch, UTC."""
FLAG = Boolean().with_variant(INTEGER(), "sqlite")


def _table(name: str, *parts: Column[Any] | CheckConstraint) -> Table:
    return Table(name, METADATA, *parts, sqlite_strict=True)


def _text(name: str, default: str | None = None, *, key: bool = False, unique: bool | None = None) -> Column[str]:
    """A text that is always there."""
    filled = None if default is None else text(f"'{default}'")
    return Column(name, Text, primary_key=key, unique=unique, nullable=False, server_default=filled)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, SECONDS, nullable=nullable)


def _count(name: str) -> Column[int]:
    return Column(name, NUMBER, nullable=False, server_default=text("0"))


def _of(table: str, name: str, *, key: bool = False, nullable: bool = False) -> Column[str]:
    """The id of a row with which this one goes."""
    goes = ForeignKey(f"{table}.id", ondelete="CASCADE")
    return Column(name, Text, goes, primary_key=key, nullable=nullable)


CONVERSATIONS = _table(
    "conversations",
    Column("n", NUMBER, primary_key=True),
    _text("id", unique=True),
    _text("title"),
    _text("collection"),
    _time("created"),
    _time("updated"),
    # Whose a row is: a principal's id ('' for rows of before there were any), and a group.
    _text("owner", ""),
    _text("group_name", "default"),
    # The one of llm.choices by which it is answered; empty: the server's own model.
    _text("model", ""),
)
Index("conversations_by_update", CONVERSATIONS.c.updated.desc())
Index("conversations_by_owner", CONVERSATIONS.c.owner, CONVERSATIONS.c.updated.desc())

TURNS = _table(
    "turns",
    Column("n", NUMBER, primary_key=True),
    _text("id", unique=True),
    # A turn without a conversation comes from a client that keeps its own history.
    _of("conversations", "conversation_id", nullable=True),
    _text("collection"),
    _text("question"),
    Column("search_for", Text),
    _text("status"),
    _text("answer", ""),
    Column("rewrite", Text),
    Column("evidence", Text),
    Column("ending", Text),
    _time("created"),
    _time("finished", nullable=True),
    # Follows from the next two: whether it lies beside what is shown.
    Column("replaced", FLAG, nullable=False, server_default=false()),
    _text("runner"),
    _text("owner", ""),
    _text("group_name", "default"),
    # The turn that it follows; turns that follow the same one are versions of each other. None: it begins one.
    Column("parent", Text),
    # Of the versions the one with the highest number is shown, of equals the newest.
    _count("chosen"),
    CheckConstraint("status IN ('pending', 'answered', 'quoted', 'refused', 'failed', 'interrupted')"),
)
Index("turns_by_conversation", TURNS.c.conversation_id, TURNS.c.n)
Index("turns_by_owner", TURNS.c.owner)
Index("turns_by_parent", TURNS.c.parent)
_PENDING = text("status = 'pending'")
Index("turns_pending", TURNS.c.runner, sqlite_where=_PENDING, postgresql_where=_PENDING)

FEEDBACK = _table(
    "feedback",
    _of("turns", "turn_id", key=True),
    _text("rating"),
    _text("reason"),
    _text("comment"),
    _time("created"),
    _text("owner", ""),
    CheckConstraint("rating IN ('up', 'down')"),
)

TRACES = _table("traces", _of("turns", "turn_id", key=True), _text("trace"))

KEYS = _table(
    "keys",
    _text("id", key=True),
    _text("name"),
    _text("hash", unique=True),
    _time("created"),
    _time("used", nullable=True),
    _time("revoked", nullable=True),
    _text("role", "operator"),
    _text("groups", '["*"]'),
    _time("expires", nullable=True),
    CheckConstraint("role IN ('reader', 'agent', 'operator')"),
)

SESSIONS = _table(
    "sessions",
    _text("hash", key=True),
    _text("principal"),
    _of("keys", "key_id", nullable=True),
    _time("expires"),
    # What the provider said about a person when the session began: it is shown to it when the person leaves.
    _text("id_token", ""),
)

GRANTS = _table("grants", _text("collection", key=True), _text("group_name", key=True), _time("created"))
"""Which groups may use a collection; one without any row belongs to the group `default`."""

JOBS = _table(
    "jobs",
    _text("id", key=True),
    _text("kind"),
    _text("collection"),
    _text("state"),
    _text("stage", ""),
    _count("done"),
    _count("total"),
    _text("message", ""),
    _text("files", "[]"),
    _time("created"),
    _time("updated"),
    _text("runner"),
    _text("owner", ""),
    _text("group_name", "default"),
)
Index("jobs_by_creation", JOBS.c.created.desc())

SOURCES = _table("sources", _text("collection", key=True), _text("path", key=True), _time("added"))
"""Where a collection's documents came from, so that it can be indexed again."""

UPLOADS = _table(
    "uploads",
    _text("collection", key=True),
    _text("name", key=True),
    _text("owner"),
    _text("group_name"),
    Column("bytes", NUMBER, nullable=False),
    _time("created"),
)
"""Files that people handed in: `name` is the file's below the collection's uploads."""

AUDIT = _table(
    "audit",
    Column("n", NUMBER, primary_key=True, autoincrement=False),
    _time("at"),
    _text("principal"),
    _text("action"),
    _text("about", ""),
    _text("collection", ""),
    _text("group_name", ""),
    _text("origin", ""),
    _text("outcome", "done"),
    _text("detail", "{}"),
    _text("chain", ""),
)
Index("audit_by_time", AUDIT.c.at)

AUDIT_ANCHOR = _table(
    "audit_anchor",
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("n", NUMBER, nullable=False),
    _text("chain"),
    CheckConstraint("id = 0"),
)
"""Up to where the audit log was cut off: it can be deleted to there and no further, and its chain begins there."""

STANDALONE = _table(
    "standalone",
    _text("key", key=True),
    _text("collection"),
    _text("version"),
    _text("document_id"),
    _text("owner"),
    _time("created"),
    _text("made"),
)
Index("standalone_by_document", STANDALONE.c.collection, STANDALONE.c.document_id)

REVIEWS = _table(
    "reviews",
    Column("n", NUMBER, primary_key=True),
    _of("turns", "turn_id"),
    _text("owner"),
    _time("at"),
    _text("verdict"),
    Column("rewrite", Text),
    Column("passages", Text),
    Column("answer", Text),
    Column("undoes", NUMBER, ForeignKey("reviews.n", ondelete="CASCADE")),
    CheckConstraint("verdict IN ('corrected', 'approved', 'rejected', 'undone')"),
)
Index("reviews_by_turn", REVIEWS.c.turn_id)
Index("reviews_undoing", REVIEWS.c.undoes)

SHARES = _table(
    "shares",
    _text("id", key=True),
    _text("hash", unique=True),
    _of("conversations", "conversation_id"),
    _text("principal"),
    _time("created"),
    _time("expires"),
)
Index("shares_by_conversation", SHARES.c.conversation_id)

COUNTING_REVIEWS = REVIEWS.to_metadata(MetaData(), name="counting_reviews")
"""A view: of a turn's reviews the newest that no later one undoes."""

TEXTS = Table("texts", MetaData(), Column("rowid", NUMBER), Column("conversation_id", Text), Column("text", Text))
"""What can be searched for: row 2n belongs to turn n, row 2n + 1 to conversation n."""


def visible(table: FromClause, seen: Seen) -> ColumnElement[bool]:
    """The rows that are seen of a table (or its alias) with `owner`, `group_name` and `collection`."""
    who, conditions = seen.principal, list[ColumnElement[bool]]()
    own: ColumnElement[bool] = table.c.owner == who.id
    if not who.everywhere:
        granted = select(GRANTS.c.collection).where(GRANTS.c.collection == table.c.collection)
        mine = granted.where(GRANTS.c.group_name.in_(who.groups)).exists()
        conditions.append(or_(mine, not_(granted.exists())) if DEFAULT_GROUP in who.groups else mine)
    if not who.has("agent"):
        conditions.append(own)
    elif not who.everywhere:
        conditions.append(or_(own, table.c.group_name.in_(who.groups)))
    return and_(true(), *conditions)
