"""What people made of turns on the workbench: rows that are only added to, and reviewed conversations as data.

Each row says all that is known of a turn since: what its question asks in full, the passages that answer it, the right
answer. What was not said is None, and nothing is learnt from it. A row that undoes another is a row too.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from rewriter.conversation import Message
from rewriter.examples import normalised
from server.access import Seen
from server.store import turns
from server.store.records import StoredTurn, TurnStatus, View
from server.turn.own_words import remembered

Verdict: TypeAlias = Literal["corrected", "approved", "rejected"]
Doubt: TypeAlias = Literal["rated", "refused", "unsupported", "edited", "unsure"]
ReviewState: TypeAlias = Literal["open", "done"]

NEWEST = 5_000
"""So many of the newest turns are put in order of doubt."""

_PRONOUNS = frozenset(("it", "its", "they", "them", "their", "this", "that", "these", "those"))

_DOUBTS: dict[Doubt, tuple[int, str]] = {
    "rated": (3, "coalesce(f.rating = 'down', 0)"),
    "refused": (2, "t.status = 'refused'"),
    "unsupported": (
        2,
        "EXISTS (SELECT 1 FROM json_each(t.ending, '$.support') s WHERE NOT json_extract(s.value, '$.supported'))",
    ),
    "edited": (2, "t.search_for IS NOT NULL"),
    "unsure": (
        1,
        "t.status <> 'refused' AND (coalesce(json_extract(t.ending, '$.answerable') < 0.6, 0) "
        "OR coalesce(json_extract(t.rewrite, '$.confidence') < 0.6, 0))",
    ),
}
"""What speaks against a turn, how much, and as SQL over `turns t` and `feedback f`."""


class MarkedPassage(View):
    """A stretch of a document's text that answers a question; `quote` is that text as it was then."""

    document_id: str
    start: int
    end: int
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


class ReviewChanges(View):
    """What a person says of a turn; only fields that were set count, and an explicit None takes back what was said."""

    rewrite: str | None = None
    passages: tuple[MarkedPassage, ...] | None = None
    answer: str | None = None


class ReviewCandidate(View):
    """A turn in the list: what speaks against it, how much in all, and what was made of it."""

    turn_id: str
    conversation_id: str
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
        """As a line of JSON."""
        return self.model_dump_json(exclude_none=True) + "\n"


def candidates(
    connection: sqlite3.Connection,
    seen: Seen,
    *,
    state: ReviewState = "open",
    doubt: Doubt | Literal[""] = "",
    collection: str = "",
    words: str = "",
    limit: int = 50,
    offset: int = 0,
) -> tuple[list[ReviewCandidate], int]:
    """Turns of conversations as they are shown, most doubtful first, and how many there are.

    Those that were reviewed come in the order of that. `words` are looked for in the question.
    """
    said = ", ".join(f"{condition} AS {name}" for name, (_, condition) in _DOUBTS.items())
    weighed = " + ".join(f"{weight} * {name}" for name, (weight, _) in _DOUBTS.items())
    rows = connection.execute(
        f"SELECT *, {weighed} AS doubt, count(*) OVER () AS total FROM ("
        "SELECT t.n, t.id AS turn_id, t.conversation_id, t.collection, t.question, t.status, t.created, r.verdict, "
        f"r.owner AS by, r.at, {said} FROM turns t LEFT JOIN feedback f ON f.turn_id = t.id "
        f"LEFT JOIN counting_reviews r ON r.turn_id = t.id WHERE {seen.on('t')} AND t.conversation_id IS NOT NULL "
        "AND NOT t.replaced AND t.status IN ('answered', 'quoted', 'refused') AND t.question <> '' "
        "AND (r.n IS NULL) = (:state = 'open') AND (:collection = '' OR t.collection = :collection) "
        "AND instr(lower(t.question), lower(:words)) > 0 ORDER BY t.n DESC LIMIT :newest"
        f") WHERE {doubt or '1'} ORDER BY CASE :state WHEN 'done' THEN at END DESC, doubt DESC, n DESC "
        "LIMIT :limit OFFSET :offset",
        {
            "state": state,
            "collection": collection,
            "words": words,
            "newest": NEWEST,
            "limit": limit,
            "offset": offset,
            **seen.values,
        },
    ).fetchall()
    found = [
        ReviewCandidate(
            **{name: row[name] for name in ReviewCandidate.model_fields if name != "doubts"},
            doubts=tuple(name for name in _DOUBTS if row[name]),
        )
        for row in rows
    ]
    return found, rows[0]["total"] if rows else 0


def doubts(connection: sqlite3.Connection, turn_id: str) -> tuple[Doubt, ...]:
    """What speaks against a turn."""
    said = ", ".join(f"{condition} AS {name}" for name, (_, condition) in _DOUBTS.items())
    row = connection.execute(
        f"SELECT {said} FROM turns t LEFT JOIN feedback f ON f.turn_id = t.id WHERE t.id = ?", (turn_id,)
    ).fetchone()
    return tuple(name for name in _DOUBTS if row and row[name])


def rows_of(connection: sqlite3.Connection, turn_id: str) -> list[ReviewRecord]:
    """All that was ever said of a turn, oldest first."""
    rows = connection.execute("SELECT * FROM reviews WHERE turn_id = ? ORDER BY n", (turn_id,))
    return [_record(row) for row in rows]


def counting(connection: sqlite3.Connection, turn_id: str) -> ReviewRecord | None:
    """The row that counts."""
    row = connection.execute("SELECT * FROM counting_reviews WHERE turn_id = ?", (turn_id,)).fetchone()
    return _record(row) if row else None


def add(connection: sqlite3.Connection, turn: StoredTurn, verdict: Verdict, changes: ReviewChanges, by: str) -> None:
    """Say something of a turn; what was said before stays, where `changes` do not say otherwise.

    Approving says of all else that it was right as it is; what is rejected teaches nothing.
    """
    before = counting(connection, turn.id)
    said = {name: getattr(before, name) for name in ReviewChanges.model_fields} if before else {}
    if verdict == "rejected":
        said = {}
    else:
        said |= {name: getattr(changes, name) for name in changes.model_fields_set}
    if verdict == "approved":
        said = {**_as_it_is(turn), **{name: value for name, value in said.items() if value is not None}}
    passages: Sequence[MarkedPassage] | None = said.get("passages")
    connection.execute(
        "INSERT INTO reviews (turn_id, owner, at, verdict, rewrite, passages, answer) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            turn.id,
            by,
            time.time(),
            verdict,
            said.get("rewrite"),
            None if passages is None else json.dumps([one.model_dump() for one in passages]),
            said.get("answer"),
        ),
    )


def undo(connection: sqlite3.Connection, turn_id: str, by: str) -> bool:
    """Take back the row that counts, by a further row; False where there is none."""
    return (
        connection.execute(
            "INSERT INTO reviews (turn_id, owner, at, verdict, undoes) "
            "SELECT turn_id, ?, ?, 'undone', n FROM counting_reviews WHERE turn_id = ?",
            (by, time.time(), turn_id),
        ).rowcount
        > 0
    )


def dialogs(connection: sqlite3.Connection, seen: Seen, collection: str = "") -> Iterator[ReviewedDialog]:
    """Every conversation with a turn that is shown and was corrected or approved, up to the last of these."""
    rows = connection.execute(
        "SELECT t.conversation_id, r.* FROM counting_reviews r JOIN turns t ON t.id = r.turn_id "
        "WHERE r.verdict IN ('corrected', 'approved') AND NOT t.replaced AND t.conversation_id IS NOT NULL "
        f"AND (:collection = '' OR t.collection = :collection) AND {seen.on('t')} ORDER BY t.n",
        {"collection": collection, **seen.values},
    ).fetchall()
    reviewed: dict[str, dict[str, ReviewRecord]] = {}
    for row in rows:
        reviewed.setdefault(row["conversation_id"], {})[row["turn_id"]] = _record(row)
    for conversation, by_turn in reviewed.items():
        said = list[ReviewedMessage]()
        asked = [turn for turn in turns.of_conversation(connection, conversation, seen) if turn.status != "pending"]
        last = max(n for n, turn in enumerate(asked) if turn.id in by_turn)
        for turn in asked[: last + 1]:
            said.append(_question(turn, by_turn.get(turn.id), first=not said))
            answered = remembered((Message("assistant", turn.answer),)).messages
            said += [ReviewedMessage(role="assistant", text=one.text) for one in answered]
        yield ReviewedDialog(dialog_id=conversation, collection=asked[last].collection, turns=tuple(said))


def _question(turn: StoredTurn, review: ReviewRecord | None, *, first: bool) -> ReviewedMessage:
    asked = ReviewedMessage(role="user", text=turn.question, turn_id=turn.id, judged=False)
    if review is None:
        return asked
    known: dict[str, object] = {"rewrite": review.rewrite, "answer": review.answer}
    if review.rewrite is not None and review.passages is not None:
        known["judged"] = None
    if review.passages is not None:
        known["answerability"] = "answerable" if review.passages else "unanswerable"
        known["evidence"] = tuple(ReviewedQuote(document=one.document_id, quote=one.quote) for one in review.passages)
    if review.rewrite is not None:
        alone = normalised(review.rewrite) == normalised(turn.question)
        leaning = "ellipsis" if _PRONOUNS.isdisjoint(normalised(turn.question).split()) else "pronoun"
        known["kind"] = "first" if first else "standalone" if alone else leaning
    return asked.model_copy(update=known)


def _as_it_is(turn: StoredTurn) -> dict[str, object]:
    """What approving a turn says: its search, what it cites word for word, and its answer."""
    rewrite = turn.search_for or (turn.rewrite.text if turn.rewrite else turn.question)
    if turn.status == "refused":
        return {"rewrite": rewrite, "passages": ()}
    cited = dict[tuple[str, int, int], MarkedPassage]()
    for citation in turn.done.citations if turn.done else ():
        for passage in turn.evidence.passages if turn.evidence else ():
            start, end = citation.start - passage.start, citation.end - passage.start
            if passage.n == citation.n and 0 <= start < end <= len(passage.text):
                cited[passage.document_id, citation.start, citation.end] = MarkedPassage(
                    document_id=passage.document_id,
                    start=citation.start,
                    end=citation.end,
                    quote=passage.text[start:end],
                )
    return {"rewrite": rewrite, "passages": tuple(cited.values()) or None, "answer": turn.answer or None}


def _record(row: sqlite3.Row) -> ReviewRecord:
    passages = json.loads(row["passages"]) if row["passages"] is not None else None
    return ReviewRecord(
        n=row["n"],
        turn_id=row["turn_id"],
        by=row["owner"],
        at=row["at"],
        verdict=row["verdict"],
        rewrite=row["rewrite"],
        passages=None if passages is None else tuple(MarkedPassage(**one) for one in passages),
        answer=row["answer"],
        undoes=row["undoes"],
    )
