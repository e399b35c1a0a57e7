"""Turns: stored as they begin, kept up to date while they are answered, and ended once.

Ratings and traces hang on turns and go with them. Of a turn's ratings the newest counts.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from rewriter.protocol import Conversation, Message
from server.access import Principal
from server.store.records import Feedback, Rating, StoredTurn, Trace, TraceSummary, TurnStatus
from server.store.schema import CONVERSATIONS, FEEDBACK, TRACES, TURNS, json_text, put, visible
from server.turn.answer import borne_out
from server.turn.events import DoneEvent, ErrorEvent, EvidenceEvent, RewriteEvent, SupportEvent
from server.turn.system_messages import history_for_model

# What every turn executes is built once: to build a statement takes longer than to execute it.
_TURN, _CONVERSATION = TURNS.c.id == sa.bindparam("turn"), TURNS.c.conversation_id == sa.bindparam("conversation")
_CHANGE = sa.update(TURNS).where(_TURN)
_CHECKPOINT = _CHANGE.where(TURNS.c.status == "pending")
_UNTITLED = sa.and_(CONVERSATIONS.c.title == "", CONVERSATIONS.c.collection == sa.bindparam("about"))
_TITLE = sa.case((_UNTITLED, sa.bindparam("named")), else_=CONVERSATIONS.c.title)
_TOUCH = sa.update(CONVERSATIONS).where(CONVERSATIONS.c.id == sa.bindparam("conversation")).values(title=_TITLE)
_NEWEST = sa.select(TURNS.c.id).where(_CONVERSATION, sa.not_(TURNS.c.replaced)).order_by(TURNS.c.n.desc()).limit(1)
_NEXT = sa.insert(TURNS).values(parent=_NEWEST.scalar_subquery())
_AGAIN = sa.insert(TURNS).values(parent=sa.select(TURNS.c.parent).where(_TURN).scalar_subquery())
_ITS = sa.select(TURNS.c.conversation_id).where(_TURN).scalar_subquery()
_TOUCH_ITS = sa.update(CONVERSATIONS).where(CONVERSATIONS.c.id == _ITS)

_CITED_TURNS, _CITED = 500, 50
"""Answers whose citations are counted, and sections that are named."""

OF_VISITORS = sa.and_(TURNS.c.owner.like("key:%/%"), TURNS.c.conversation_id.is_(None))
"""Turns of visitors of a web site; all of one visitor are one conversation."""

_BEFORE, _LINKS = TURNS.alias("before"), ("id", "parent", "conversation_id")
_LINE = sa.select(*TURNS.c[_LINKS]).where(_TURN).cte("line", recursive=True)
_LINE = _LINE.union_all(sa.select(*_BEFORE.c[_LINKS]).join(_LINE, _BEFORE.c.id == _LINE.c.parent))
"""A turn and those that it follows."""


def _turns(who: Principal) -> sa.Select[Any]:
    """The turns there are to be seen, with what was thought of them."""
    columns = FEEDBACK.c["rating", "reason", "comment"]
    rated = sa.select(TURNS, *columns, FEEDBACK.c.created.label("rated")).join_from(TURNS, FEEDBACK, isouter=True)
    return rated.where(visible(TURNS, who))


def _seen(turn_id: str, who: Principal) -> sa.ColumnElement[bool]:
    return sa.and_(TURNS.c.id == turn_id, visible(TURNS, who))


def begin(
    connection: sa.Connection, row: Mapping[str, str | None], *, title: str, regenerate_of: str | None = None
) -> bool:
    """Store a turn that is about to be answered; `row` holds its columns.

    `regenerate_of` names the turn of which this one is a new version: what follows that one stays with it. A
    conversation without a title of its own gets `title` from a turn over its collection. False if the conversation is
    gone.
    """
    conversation, now = row["conversation_id"], time.time()
    touched = {"conversation": conversation, "about": row["collection"], "named": title, "updated": now}
    if conversation is not None and connection.execute(_TOUCH, touched).rowcount == 0:
        return False
    begun = {**row, "status": "pending", "created": now}
    if regenerate_of is None:
        connection.execute(_NEXT, {**begun, "conversation": conversation})
    else:
        connection.execute(_AGAIN, {**begun, "turn": regenerate_of})
        _show(connection, str(row["id"]))
    return True


def show(connection: sa.Connection, conversation_id: str, turn_id: str, who: Principal) -> bool:
    """Show the version `turn_id` of a conversation, and what followed it then; False if it is not there to be seen."""
    turn = find(connection, turn_id, who)
    if turn is None or turn.conversation_id != conversation_id:
        return False
    _show(connection, turn_id)
    return True


def _show(connection: sa.Connection, turn_id: str) -> None:
    """Choose a turn and all that it follows among their versions, and mark what is shown."""
    line = connection.execute(sa.select(_LINE), {"turn": turn_id}).all()
    conversation_id = line[0].conversation_id
    last = connection.scalar(sa.select(sa.func.max(TURNS.c.chosen)).where(TURNS.c.conversation_id == conversation_id))
    chosen = sa.update(TURNS).where(TURNS.c.id.in_([row.id for row in line]))
    connection.execute(chosen.values(chosen=1 + (last or 0)))
    mark_shown(connection, [conversation_id])


def mark_shown(connection: sa.Connection, conversations: Collection[str]) -> None:
    """Mark what is shown of conversations: from the first turn on the version chosen last."""
    rows = connection.execute(
        sa.select(*TURNS.c["id", "conversation_id", "parent", "replaced"])
        .where(TURNS.c.conversation_id.in_(conversations))
        .order_by(TURNS.c.chosen, TURNS.c.n)
    ).all()
    follows = {(row.conversation_id, row.parent): row.id for row in rows}
    versions = set[str]()
    for conversation in conversations:
        turn = follows.get((conversation, None))
        while turn is not None:
            versions.add(turn)
            turn = follows.get((conversation, turn))
    wrong = [row.id for row in rows if row.replaced == (row.id in versions)]
    connection.execute(sa.update(TURNS).where(TURNS.c.id.in_(wrong)).values(replaced=sa.not_(TURNS.c.replaced)))


def checkpoint(connection: sa.Connection, turn_id: str, answer: str) -> None:
    """Keep what has been shown of a pending turn's answer."""
    connection.execute(_CHECKPOINT, {"turn": turn_id, "answer": answer})


def finish(
    connection: sa.Connection,
    turn_id: str,
    *,
    status: TurnStatus,
    answer: str,
    rewrite: RewriteEvent | None,
    evidence: EvidenceEvent | None,
    ending: DoneEvent | ErrorEvent | None,
    trace: Trace | None,
) -> None:
    """End a turn and keep its trace. A turn deleted meanwhile stays deleted."""
    now, events = time.time(), {"rewrite": rewrite, "evidence": evidence, "ending": ending}
    ended = {"turn": turn_id, "status": status, "answer": answer, "finished": now}
    texts = {name: event.model_dump_json() if event else None for name, event in events.items()}
    if not connection.execute(_CHANGE, {**ended, **texts}).rowcount:
        return
    connection.execute(_TOUCH_ITS, {"turn": turn_id, "updated": now})
    if trace is not None:
        put(connection, TRACES, {"turn_id": turn_id, "trace": trace.model_dump_json()})


def find(connection: sa.Connection, turn_id: str, who: Principal) -> StoredTurn | None:
    """One turn, also if another version of it is shown."""
    row = connection.execute(_turns(who).where(TURNS.c.id == turn_id)).mappings().first()
    if row is None:
        return None
    beside = TURNS.c.conversation_id == row["conversation_id"], TURNS.c.parent.is_not_distinct_from(row["parent"])
    versions = connection.scalars(sa.select(TURNS.c.id).where(*beside, visible(TURNS, who)).order_by(TURNS.c.n))
    return _turn(row, tuple(versions))


def owner(connection: sa.Connection, turn_id: str, who: Principal) -> str | None:
    """Return the owner of a turn; None where there is none to be seen."""
    owner_id: str | None = connection.scalar(sa.select(TURNS.c.owner).where(_seen(turn_id, who)))
    return owner_id


def of_conversation(connection: sa.Connection, conversation_id: str, who: Principal) -> list[StoredTurn]:
    """The turns of a conversation that are shown, oldest first."""
    of_it = _turns(who).where(TURNS.c.conversation_id == conversation_id).order_by(TURNS.c.n)
    rows, versions = connection.execute(of_it).mappings().all(), dict[str | None, tuple[str, ...]]()
    for row in rows:
        versions[row["parent"]] = (*versions.get(row["parent"], ()), row["id"])
    return [_turn(row, versions[row["parent"]]) for row in rows if not row["replaced"]]


def with_owners(
    connection: sa.Connection, who: Principal, condition: sa.ColumnElement[bool], limit: int
) -> list[tuple[StoredTurn, str]]:
    """Return the newest turns that meet a condition, each with its owner."""
    rows = connection.execute(_turns(who).where(condition).order_by(TURNS.c.n.desc()).limit(limit))
    return [(_turn(row, ()), row["owner"]) for row in rows.mappings()]


def is_of_visitor(connection: sa.Connection, turn_id: str, who: Principal) -> bool:
    """Whether a visitor of a web site asked a turn."""
    return connection.scalar(sa.select(TURNS.c.id).where(_seen(turn_id, who), OF_VISITORS)) is not None


def of_visitor(connection: sa.Connection, turn_id: str, who: Principal, limit: int) -> list[StoredTurn]:
    """Return the newest turns up to `turn_id` of the visitor of a web site who asked it, oldest first.

    Of another one's turn that turn alone; nothing where there is no such turn to be seen.
    """
    its = connection.execute(sa.select(*TURNS.c["n", "owner", "collection"]).where(_seen(turn_id, who))).first()
    if its is None:
        return []
    together = sa.and_(
        OF_VISITORS, TURNS.c.owner == its.owner, TURNS.c.collection == its.collection, TURNS.c.n <= its.n
    )
    rows = with_owners(connection, who, sa.or_(TURNS.c.n == its.n, together), limit)
    return [turn for turn, _ in reversed(rows)]


def cited_most(connection: sa.Connection, collection: str, since: float) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the sections (document, title, headings) that several of the newest answers cite first, by how many."""
    wanted = sa.and_(
        TURNS.c.collection == collection, TURNS.c.created >= since, TURNS.c.status.in_(("answered", "quoted"))
    )
    endings = connection.scalars(sa.select(TURNS.c.ending).where(wanted).order_by(TURNS.c.n.desc()).limit(_CITED_TURNS))
    counts = Counter[tuple[str, str, tuple[str, ...]]]()
    for ending in filter(None, endings):
        places = json.loads(ending)["citations"][:1]
        counts.update({(place["document_id"], place["title"], tuple(place["heading"])) for place in places})
    return [section for section, count in counts.most_common(_CITED) if count > 1]


def history(
    connection: sa.Connection, conversation_id: str | None, who: Principal, *, before: str | None, limit: int
) -> Conversation:
    """Return the newest `limit` messages of a conversation, oldest first, as filtered by `history_for_model`.

    It is what the turn `before` follows, or all that is shown; without a conversation what the visitor of a web site
    asked before that turn. A question that got no answer counts as asked; a turn that is still being answered does not
    count.
    """
    if conversation_id is None:
        turns = of_visitor(connection, before or "", who, 1 + limit)[:-1]
        exchanges = [(turn.question, answer_for_history(turn)) for turn in turns]
    else:
        wanted = {"conversation": conversation_id, "turn": before, "limit": limit}
        rows = connection.execute(_said(who, bool(before)), wanted).all()
        exchanges = [(row.question, _borne_out(row)) for row in reversed(rows)]
    messages = list[Message]()
    for question, answer in exchanges:
        messages.append(Message("user", question))
        if answer:
            messages.append(Message("assistant", answer))
    return history_for_model(messages[-limit:] if limit else ())


def answer_for_history(turn: StoredTurn) -> str:
    """Return the answer of a turn without what was shown as not borne out."""
    return borne_out(turn.answer, turn.done.support, doubted=turn.done.doubted) if turn.done else turn.answer


def _borne_out(row: sa.Row[Any]) -> str:
    support = [SupportEvent.model_validate(event) for event in json.loads(row.support or "[]")]
    return borne_out(row.answer, support, doubted=bool(row.doubted))


def is_doubted(ending: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether an answer said itself that it may not answer."""
    return sa.cast(json_text(ending, "doubted"), sa.Text).in_(("1", "true"))


@lru_cache(100)
def _said(who: Principal, before: bool) -> sa.Select[Any]:
    """The newest `limit` questions and answers of `conversation`, with `before` those that `turn` follows."""
    ending = json_text(TURNS.c.ending, "support").label("support"), is_doubted(TURNS.c.ending).label("doubted")
    query = sa.select(*TURNS.c["question", "answer"], *ending).where(
        _CONVERSATION, TURNS.c.status != "pending", visible(TURNS, who)
    )
    which = sa.and_(sa.not_(_TURN), TURNS.c.id.in_(sa.select(_LINE.c.id))) if before else sa.not_(TURNS.c.replaced)
    return query.where(which).order_by(TURNS.c.n.desc()).limit(sa.bindparam("limit"))


def rate(
    connection: sa.Connection, turn_id: str, rating: Rating, reason: str, comment: str, who: Principal
) -> Feedback | None:
    """Keep feedback in place of earlier feedback on the turn; None if there is no such turn to be seen."""
    if owner(connection, turn_id, who) is None:
        return None
    feedback = Feedback(turn_id=turn_id, rating=rating, reason=reason, comment=comment, created=time.time())
    put(connection, FEEDBACK, {**feedback.model_dump(), "owner": who.id})
    return feedback


def retract_rating(connection: sa.Connection, turn_id: str, who: Principal) -> bool:
    """Forget the feedback on a turn; False if there was none to be seen."""
    if owner(connection, turn_id, who) is None:
        return False
    return connection.execute(sa.delete(FEEDBACK).where(FEEDBACK.c.turn_id == turn_id)).rowcount > 0


def note_opened(connection: sa.Connection, turn_id: str, source: int, who: Principal) -> bool:
    """Keep that whoever asked opened the source of this number; False if there is no such turn or source to be seen.

    What others open of somebody's turn is not kept.
    """
    row = connection.execute(sa.select(*TURNS.c["owner", "evidence", "opened"]).where(_seen(turn_id, who))).first()
    evidence = EvidenceEvent.model_validate_json(row.evidence) if row and row.evidence else None
    if row is None or evidence is None or all(passage.n != source for passage in evidence.passages):
        return False
    if row.owner == who.id:
        opened = sorted({source, *json.loads(row.opened or "[]")})
        connection.execute(_CHANGE.values(opened=json.dumps(opened)), {"turn": turn_id})
    return True


def trace(connection: sa.Connection, turn_id: str, who: Principal) -> Trace | None:
    """Return the trace of a turn; None where there is no trace of it (yet)."""
    stored = connection.scalar(sa.select(TRACES.c.trace).join(TURNS).where(_seen(turn_id, who)))
    return Trace.model_validate_json(stored) if stored else None


def traced(connection: sa.Connection, who: Principal, collection: str, limit: int) -> list[TraceSummary]:
    """The newest turns (of a collection, if one is named) that left a trace."""
    about = TURNS.c.id.label("turn_id"), *TURNS.c["created", "collection", "question", "status"]
    seconds = sa.cast(json_text(TRACES.c.trace, "seconds"), sa.Double).label("seconds")
    newest = sa.select(*about, seconds).join(TRACES).where(visible(TURNS, who)).order_by(TURNS.c.n.desc()).limit(limit)
    rows = connection.execute(newest.where(TURNS.c.collection == collection) if collection else newest)
    return [TraceSummary(**row) for row in rows.mappings()]


def forget_traces(connection: sa.Connection, before: float, limit: int) -> int:
    """Delete traces of turns begun before that time, `limit` at most; returns how many were found.

    A turn of no conversation is kept for its trace alone, and goes with it unless somebody rated it.
    """
    alone = sa.and_(TURNS.c.conversation_id.is_(None), FEEDBACK.c.turn_id.is_(None)).label("alone")
    old = sa.select(TURNS.c.id, alone).join(TRACES).join(FEEDBACK, isouter=True).where(TURNS.c.created < before)
    rows = connection.execute(old.limit(limit)).all()
    connection.execute(sa.delete(TRACES).where(TRACES.c.turn_id.in_([row.id for row in rows])))
    connection.execute(sa.delete(TURNS).where(TURNS.c.id.in_([row.id for row in rows if row.alone])))
    return len(rows)


def _turn(row: sa.RowMapping, versions: tuple[str, ...]) -> StoredTurn:
    status, ending = row["status"], row["ending"]
    feedback = None
    if row["rating"] is not None:
        feedback = Feedback(**{**row, "turn_id": row["id"], "created": row["rated"]})
    fields = {
        "rewrite": RewriteEvent.model_validate_json(row["rewrite"]) if row["rewrite"] else None,
        "evidence": EvidenceEvent.model_validate_json(row["evidence"]) if row["evidence"] else None,
        "done": DoneEvent.model_validate_json(ending) if ending and status != "failed" else None,
        "error": ErrorEvent.model_validate_json(ending) if ending and status == "failed" else None,
        "page": row["page"] or "",
        "where": json.loads(row["filter"] or "{}"),
        "opened": tuple(json.loads(row["opened"] or "[]")),
    }
    return StoredTurn(
        **{**row, **fields}, feedback=feedback, versions=versions if row["conversation_id"] else (row["id"],)
    )
