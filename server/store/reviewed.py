"""Reviews of turns on the workbench: append-only rows, and reviewed conversations as data; counts over turns.

Each row says all that is known of a turn since: what its question asks in full, the passages that answer it, the right
answer. A field left out is None and teaches nothing. A row that undoes another is a row too.

Counts tell what a day held and how long stages took; turns of `anaphora diagnose` are not counted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa
from pydantic import Field

from rewriter import guard
from rewriter.examples import normalised
from rewriter.protocol import Conversation, Message
from server.access import DIAGNOSIS, Principal
from server.store import turns
from server.store.records import DayCounts, StoredTurn, TurnStatus, View
from server.store.schema import (
    COUNTING_REVIEWS,
    FEEDBACK,
    REVIEWS,
    TRACES,
    TURNS,
    day_of,
    json_count,
    json_text,
    visible,
)
from server.turn.system_messages import history_for_model
from text.words import stems

TRACED = 300
"""Traces that stages are timed on, the newest: they are read whole."""


def days(connection: sa.Connection, who: Principal, collection: str, since: float) -> list[DayCounts]:
    """Each day (UTC) since then that had turns, oldest first."""
    status = TURNS.c.status
    rows = connection.execute(
        sa.select(
            day_of(TURNS.c.created).label("day"),
            sa.func.count().label("turns"),
            _how_many(status == "asked").label("asked"),
            _how_many(status == "refused").label("refused"),
            _how_many(turns.is_doubted(TURNS.c.ending)).label("doubted"),
            _how_many(is_folded(TURNS.c.ending)).label("folded"),
            _how_many(status.in_(("failed", "interrupted"))).label("failed"),
            _how_many(FEEDBACK.c.rating == "down").label("rated_down"),
            sa.func.sum(json_count(TURNS.c.ending, "support")).label("sentences"),
            sa.func.sum(json_count(TURNS.c.ending, "support", "supported")).label("unsupported"),
            sa.func.sum(contradicted(TURNS.c.ending)).label("contradicted"),
        )
        .join_from(TURNS, FEEDBACK, isouter=True)
        .where(counted(who, collection, since))
        .group_by("day")
        .order_by("day")
    )
    return [DayCounts(**row) for row in rows.mappings()]


def stages(connection: sa.Connection, who: Principal, collection: str, since: float) -> dict[str, list[float]]:
    """Seconds of each stage of the newest traced turns, in the order stages come in; `turn` is a whole one."""
    newest = sa.select(TRACES.c.trace).join(TURNS).where(counted(who, collection, since)).order_by(TURNS.c.n.desc())
    seconds, whole = dict[str, list[float]](), list[float]()
    for trace in map(json.loads, connection.scalars(newest.limit(TRACED))):
        whole.append(trace["seconds"])
        for step in trace["steps"]:
            seconds.setdefault(step["name"], []).append(step["seconds"])
    return {**seconds, "turn": whole} if whole else {}


def found_nothing() -> sa.ColumnElement[bool]:
    """Whether a turn was refused, and by no person who wrote ahead where to ask instead."""
    return sa.and_(TURNS.c.status == "refused", sa.func.coalesce(json_text(TURNS.c.ending, "written"), "") == "")


def is_folded(ending: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether quotes replaced the model's text."""
    return json_text(ending, "folded") != ""


def contradicted(ending: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """How many sentences say something else than what they cite."""
    return json_count(ending, "support") - json_count(ending, "support", "contradicted")


def _how_many(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def counted(who: Principal, collection: str, since: float) -> sa.ColumnElement[bool]:
    """Whether a turn counts: ended, begun since then, seen by `who`, about the collection if one is named."""
    condition = sa.and_(TURNS.c.status != "pending", TURNS.c.owner != DIAGNOSIS.id)
    there = sa.and_(TURNS.c.created >= since, condition, visible(TURNS, who))
    return sa.and_(there, TURNS.c.collection == collection) if collection else there


Verdict: TypeAlias = Literal["corrected", "approved", "rejected"]
Doubt: TypeAlias = Literal["rated", "refused", "contradicted", "unsupported", "folded", "doubted", "edited", "unsure"]
ReviewState: TypeAlias = Literal["open", "done"]

_TOGETHER = sa.or_(TURNS.c.conversation_id.is_not(None), turns.OF_VISITORS)
"""Turns of which it is known what was said before."""

_DIALOG = sa.func.coalesce(TURNS.c.conversation_id, TURNS.c.owner).label("dialog")
"""A turn's conversation; that of a visitor is called by its owner."""

NEWEST = 5_000
"""So many of the newest turns are put in order of doubt."""

_PRONOUNS = frozenset(("it", "its", "they", "them", "their", "this", "that", "these", "those"))

UNSURE = 0.6


def _shown(who: Principal, collection: str) -> sa.ColumnElement[bool]:
    """Turns of conversations as they are shown, and of visitors, that `who` sees, about the collection if any."""
    there = sa.and_(visible(TURNS, who), _TOGETHER, sa.not_(TURNS.c.replaced))
    return sa.and_(there, TURNS.c.collection == collection) if collection else there


def _unsure(column: sa.ColumnElement[Any], field: str) -> sa.ColumnElement[bool]:
    return sa.cast(json_text(column, field), sa.Double) < UNSURE


_DOUBTS: dict[Doubt, tuple[int, sa.ColumnElement[bool]]] = {
    "rated": (3, FEEDBACK.c.rating == "down"),
    "refused": (2, found_nothing()),
    "contradicted": (3, contradicted(TURNS.c.ending) > 0),
    "unsupported": (2, json_count(TURNS.c.ending, "support", "supported") > 0),
    "folded": (2, is_folded(TURNS.c.ending)),
    "doubted": (2, turns.is_doubted(TURNS.c.ending)),
    "edited": (2, TURNS.c.search_for.is_not(None)),
    "unsure": (
        1,
        sa.and_(
            TURNS.c.status != "refused",
            sa.or_(_unsure(TURNS.c.ending, "answerable"), _unsure(TURNS.c.rewrite, "confidence")),
        ),
    ),
}
"""What speaks against a turn, how much, and the condition over turns with their feedback."""

_SAID = [sa.case((condition, 1), else_=0).label(name) for name, (_, condition) in _DOUBTS.items()]


class PassageMark(View):
    """A stretch of a document that answers a question, as it is asked for; offsets count characters of its text."""

    document_id: str
    start: int
    end: int


class MarkedPassage(PassageMark):
    """A stretch of a document's text that answers a question; `quote` is that text as it was then."""

    quote: str


class ReviewRecord(View):
    """A row: who (a principal's id) said what of a turn, and when. An empty list of passages says that none answers."""

    n: int
    turn_id: str
    by: str
    at: float
    verdict: Literal["corrected", "approved", "rejected", "undone"]
    rewrite: str | None = None
    passages: tuple[MarkedPassage, ...] | None = None
    answer: str | None = None
    undoes: int | None = None


class ReviewCandidate(View):
    """A turn in the list: what speaks against it, how much in all, and what was made of it."""

    turn_id: str
    conversation_id: str | None = Field(description="Null for a visitor of a web site.")
    collection: str
    question: str
    status: TurnStatus
    created: float
    doubts: tuple[Doubt, ...]
    doubt: int
    verdict: Verdict | None = None
    by: str | None = None
    at: float | None = None


class ReviewedQuote(View):
    """Evidence in the form of evaluation sets."""

    document: str
    quote: str


class ReviewedMessage(View):
    """A message of a reviewed conversation, in the form of evaluation sets; what is None is left out.

    `judged` is False where nobody, or nobody wholly, said what is asked and what answers it.
    """

    role: Literal["user", "assistant"]
    text: str
    turn_id: str | None = None
    judged: Literal[False] | None = None
    rewrite: str | None = None
    kind: str | None = None
    answerability: str | None = None
    evidence: tuple[ReviewedQuote, ...] | None = None
    answer: str | None = None

    @property
    def reviewed(self) -> bool:
        """Whether somebody said what is asked, or what answers it."""
        return self.rewrite is not None or self.evidence is not None


class ReviewedDialog(View):
    """A conversation of which something was reviewed; one line of a set of dialogs that quote their evidence."""

    dialog_id: str
    collection: str
    turns: tuple[ReviewedMessage, ...]

    def line(self) -> str:
        return self.model_dump_json(exclude_none=True) + "\n"


def candidates(
    connection: sa.Connection,
    who: Principal,
    *,
    state: ReviewState = "open",
    doubt: Doubt | Literal[""] = "",
    collection: str = "",
    words: str = "",
    limit: int = 50,
    offset: int = 0,
) -> tuple[list[ReviewCandidate], int]:
    """Turns of conversations as they are shown, and of visitors, most doubtful first, and how many there are.

    Those that were reviewed come in the order of that. `words` are looked for in the question.
    """
    turn = TURNS.c["n", "id", "conversation_id", "collection", "question", "status", "created"]
    wanted = (
        sa.select(*turn, *COUNTING_REVIEWS.c["verdict", "at"], COUNTING_REVIEWS.c.owner.label("by"), *_SAID)
        .join_from(TURNS, FEEDBACK, isouter=True)
        .join(COUNTING_REVIEWS, COUNTING_REVIEWS.c.turn_id == TURNS.c.id, isouter=True)
        .where(_shown(who, collection), TURNS.c.question != "")
        .where(TURNS.c.status.in_(("answered", "quoted", "asked", "refused")))
        .where(COUNTING_REVIEWS.c.n.is_(None) if state == "open" else COUNTING_REVIEWS.c.n.is_not(None))
        .where(TURNS.c.question.icontains(words, autoescape=True))
        .order_by(TURNS.c.n.desc())
        .limit(NEWEST)
    )
    newest = wanted.subquery()
    weighed = sum((weight * newest.c[name] for name, (weight, _) in _DOUBTS.items()), start=sa.literal(0))
    listed = sa.select(newest, weighed.label("doubt"), sa.func.count().over().label("total"))
    if doubt:
        listed = listed.where(newest.c[doubt] == 1)
    order = [newest.c.at.desc()] if state == "done" else []
    listed = listed.order_by(*order, weighed.desc(), newest.c.n.desc()).limit(limit).offset(offset)
    rows = connection.execute(listed).mappings().all()
    candidates = [ReviewCandidate(**{**row, "turn_id": row["id"]}, doubts=_doubts_of(row)) for row in rows]
    return candidates, rows[0]["total"] if rows else 0


def doubts(connection: sa.Connection, turn_id: str) -> tuple[Doubt, ...]:
    """Return the reasons to doubt a turn."""
    of_it = sa.select(*_SAID).join_from(TURNS, FEEDBACK, isouter=True).where(TURNS.c.id == turn_id)
    row = connection.execute(of_it).mappings().first()
    return _doubts_of(row) if row else ()


def _doubts_of(row: sa.RowMapping) -> tuple[Doubt, ...]:
    return tuple(name for name in _DOUBTS if row[name])


def rows_of(connection: sa.Connection, turn_id: str) -> list[ReviewRecord]:
    """All that was ever said of a turn, oldest first."""
    rows = sa.select(REVIEWS).where(REVIEWS.c.turn_id == turn_id).order_by(REVIEWS.c.n)
    return [_record(row) for row in connection.execute(rows)]


def counting(connection: sa.Connection, turn_id: str) -> ReviewRecord | None:
    row = connection.execute(sa.select(COUNTING_REVIEWS).where(COUNTING_REVIEWS.c.turn_id == turn_id)).first()
    return _record(row) if row else None


def add(connection: sa.Connection, turn: StoredTurn, verdict: Verdict, changes: Mapping[str, Any], by: str) -> None:
    """Say something of a turn; what was said before stays, where `changes` (of rewrite, passages and answer) do not
    say otherwise: None takes it back.

    Approving says of all else that it was right as it is; what is rejected teaches nothing. The turn's own citations
    support its own answer: where question or answer were corrected, only passages that a person marked count.
    """
    before, was = counting(connection, turn.id), _as_it_is(turn)
    fields: dict[str, Any] = {}
    if verdict != "rejected":
        earlier = {name: getattr(before, name) for name in ("rewrite", "passages", "answer")} if before else {}
        fields = {**earlier, **changes}
    corrected = (name for name in ("rewrite", "answer") if fields.get(name))
    if any(normalised(fields[name]) != normalised(str(was.get(name) or "")) for name in corrected):
        if "passages" not in changes and _by_approval(rows_of(connection, turn.id), fields.get("passages")):
            fields["passages"] = None
        was["passages"] = None
    if verdict == "approved":
        fields = {**was, **{name: value for name, value in fields.items() if value is not None}}
    passages: Sequence[MarkedPassage] | None = fields.get("passages")
    marked = None if passages is None else json.dumps([passage.model_dump() for passage in passages])
    row = {"turn_id": turn.id, "owner": by, "at": time.time(), "verdict": verdict, "passages": marked}
    connection.execute(sa.insert(REVIEWS), {**row, "rewrite": fields.get("rewrite"), "answer": fields.get("answer")})


def _by_approval(rows: Sequence[ReviewRecord], passages: Sequence[MarkedPassage] | None) -> bool:
    """Return whether passages came with an approval, and nobody had marked them before it."""
    undone = {row.undoes for row in rows}
    live = (row for row in reversed(rows) if row.verdict != "undone" and row.n not in undone)
    alike = list(takewhile(lambda row: row.passages == passages, live))
    return bool(alike) and alike[-1].verdict == "approved"


def undo(connection: sa.Connection, turn_id: str, by: str) -> bool:
    """Take back the row that counts, by a further row; False where there is none."""
    before = counting(connection, turn_id)
    if before is None:
        return False
    row = {"turn_id": turn_id, "owner": by, "at": time.time(), "verdict": "undone", "undoes": before.n}
    connection.execute(sa.insert(REVIEWS), row)
    return True


def dialogs(
    connection: sa.Connection, who: Principal, collection: str = "", *, used: bool = False
) -> list[ReviewedDialog]:
    """Every conversation with a turn that is shown and was corrected or approved, up to the last of these.

    Turns of a visitor are a conversation called by its owner. With `used`, turns that nobody reviewed count too where
    whoever asked rated them up, opened a source or wrote their search anew, and those that one of these asks again in
    more words: such turns are never `judged`, and only teach.
    """
    given = (
        sa.select(COUNTING_REVIEWS, TURNS.c.conversation_id, _DIALOG)
        .join(COUNTING_REVIEWS, COUNTING_REVIEWS.c.turn_id == TURNS.c.id)
        .where(COUNTING_REVIEWS.c.verdict.in_(("corrected", "approved")), _shown(who, collection))
        .order_by(TURNS.c.n)
    )
    rows = [(row, _record(row)) for row in connection.execute(given).all()]
    more = connection.execute(_used(who, collection)).all() if used else ()
    reviewed: dict[tuple[str, bool], dict[str, ReviewRecord | None]] = {}
    for row, review in (*rows, *((row, None) for row in more)):
        reviewed.setdefault((row.dialog, row.conversation_id is None), {})[row.turn_id] = review
    conversations = list[ReviewedDialog]()
    for (conversation, visited), by_turn in reviewed.items():
        messages = list[ReviewedMessage]()
        if visited:
            its = turns.of_visitor(connection, list(by_turn)[-1], who, NEWEST)
        else:
            its = turns.of_conversation(connection, conversation, who)
        conversation_turns = [turn for turn in its if turn.status != "pending"]
        last = max(n for n, turn in enumerate(conversation_turns) if turn.id in by_turn)
        for n, turn in enumerate(conversation_turns[: last + 1]):
            review = by_turn.get(turn.id)
            if weak := used and review is None:
                after = conversation_turns[n + 1] if n < last else None
                if turn.id in by_turn:
                    review = _by_use(turn)
                elif after and after.id in by_turn and counting(connection, turn.id) is None:
                    review = _worded_anew(messages, turn, after, by_turn[after.id] or _by_use(after))
            messages.append(_question(turn, review, first=not messages, weak=weak))
            answered = history_for_model((Message("assistant", turns.answer_for_history(turn)),)).messages
            messages += [ReviewedMessage(role="assistant", text=message.text) for message in answered]
        conversations.append(
            ReviewedDialog(
                dialog_id=conversation, collection=conversation_turns[last].collection, turns=tuple(messages)
            )
        )
    return conversations


def _used(who: Principal, collection: str) -> sa.Select[Any]:
    """Select the turns that nobody reviewed and that whoever asked rated up, or did not rate and opened a source of or
    searched anew."""
    worked = sa.and_(sa.or_(TURNS.c.search_for.is_not(None), TURNS.c.opened.is_not(None)), FEEDBACK.c.rating.is_(None))
    return (
        sa.select(TURNS.c.id.label("turn_id"), TURNS.c.conversation_id, _DIALOG)
        .join_from(TURNS, FEEDBACK, isouter=True)
        .join(COUNTING_REVIEWS, COUNTING_REVIEWS.c.turn_id == TURNS.c.id, isouter=True)
        .where(COUNTING_REVIEWS.c.n.is_(None), _shown(who, collection))
        .where(TURNS.c.status.in_(("answered", "quoted")), sa.or_(FEEDBACK.c.rating == "up", worked))
        .order_by(TURNS.c.n)
    )


def _by_use(turn: StoredTurn) -> ReviewRecord:
    """Return a turn's review by whoever asked: all was right where it was rated up; else its search was, and of its
    sources those that were opened."""
    changes = _as_it_is(turn)
    if turn.feedback is None:
        changes = {"rewrite": changes["rewrite"], "passages": _marked(turn, turn.opened) or None}
    return _weak_review(turn, changes)


def _worded_anew(
    said: Sequence[ReviewedMessage], turn: StoredTurn, after: StoredTurn, review: ReviewRecord
) -> ReviewRecord | None:
    """Return the review of a turn that found nothing, asked back or was rated down, by the next one, which found it.

    The next one asks the same where it repeats each word of content, and what was searched then is the question in full
    where it adds only words that the conversation held already.
    """
    failed = turn.status in ("refused", "asked") or (turn.feedback is not None and turn.feedback.rating == "down")
    rewrite, asked = review.rewrite, set(stems(turn.question))
    if not (failed and rewrite and asked and after.status in ("answered", "quoted")):
        return None
    history = Conversation(tuple(Message(message.role, message.text) for message in said))
    heard = asked.union(*(stems(message.text) for message in said))
    same = asked <= set(stems(after.question)) and asked < set(stems(rewrite)) <= heard
    if not same or guard.check(history, turn.question, rewrite):
        return None
    return _weak_review(turn, {"rewrite": rewrite})


def _weak_review(turn: StoredTurn, changes: dict[str, object]) -> ReviewRecord:
    row = {"n": 0, "turn_id": turn.id, "by": "", "at": turn.created, "verdict": "approved"}
    return ReviewRecord.model_validate({**row, **changes})


def _question(turn: StoredTurn, review: ReviewRecord | None, *, first: bool, weak: bool) -> ReviewedMessage:
    """Return a question with its review, if there is one; a `weak` one judges nothing."""
    message = ReviewedMessage(role="user", text=turn.question, turn_id=turn.id, judged=False)
    if review is None:
        return message
    fields: dict[str, object] = {"rewrite": review.rewrite, "answer": review.answer}
    if review.rewrite is not None and review.passages is not None and not weak:
        fields["judged"] = None
    if review.passages is not None:
        fields["answerability"] = "answerable" if review.passages else "unanswerable"
        fields["evidence"] = tuple(
            ReviewedQuote(document=passage.document_id, quote=passage.quote) for passage in review.passages
        )
    if review.rewrite is not None:
        alone = normalised(review.rewrite) == normalised(turn.question)
        kind = "ellipsis" if _PRONOUNS.isdisjoint(normalised(turn.question).split()) else "pronoun"
        fields["kind"] = "first" if first else "standalone" if alone else kind
    return message.model_copy(update=fields)


def _as_it_is(turn: StoredTurn) -> dict[str, object]:
    """Return the review that approves a turn: its search, its citations word for word, and its answer."""
    rewrite = turn.search_for or (turn.rewrite.text if turn.rewrite else turn.question)
    if turn.status == "refused":
        return {"rewrite": rewrite, "passages": ()}
    return {"rewrite": rewrite, "passages": _marked(turn) or None, "answer": turn.answer or None}


def _marked(turn: StoredTurn, opened: Collection[int] | None = None) -> tuple[MarkedPassage, ...]:
    """Return a turn's citations word for word; with `opened` those of these sources, and the others of these whole."""
    passages = {passage.n: passage for passage in turn.evidence.passages} if turn.evidence else {}
    places = [(cited.n, cited.start, cited.end) for cited in turn.done.citations] if turn.done else []
    if opened is not None:
        uncited = set(opened) & set(passages) - {n for n, _, _ in places}
        places = [place for place in places if place[0] in opened]
        places += [(n, passages[n].start, passages[n].end) for n in sorted(uncited)]
    marked = dict[tuple[str, int, int], MarkedPassage]()
    for n, start, end in places:
        if (passage := passages.get(n)) and passage.start <= start < end <= passage.start + len(passage.text):
            quote = passage.text[start - passage.start : end - passage.start]
            mark = MarkedPassage(document_id=passage.document_id, start=start, end=end, quote=quote)
            marked[mark.document_id, start, end] = mark
    return tuple(marked.values())


def _record(row: sa.Row[Any]) -> ReviewRecord:
    passages = json.loads(row.passages) if row.passages is not None else None
    return ReviewRecord(**{**row._mapping, "by": row.owner, "passages": passages})
