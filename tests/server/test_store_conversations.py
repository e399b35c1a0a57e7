"""Conversations, turns, feedback and their search, in a real SQLite file."""

from __future__ import annotations

import uuid
from datetime import datetime

import pytest
from sqlalchemy import delete, event, select, update

from server.store import Database, conversations, turns
from server.store.records import ConversationSummary
from server.store.schema import CONVERSATIONS, FEEDBACK, TURNS
from server.turn.events import CitationEvent, DoneEvent, ErrorEvent, SupportEvent
from tests.rows import ALL, MINE, begin_turn, finish_turn, trace_of


def begin(database: Database, conversation: ConversationSummary, question: str, replaces: str | None = None) -> str:
    turn_id = uuid.uuid4().hex
    database.write_blocking(lambda c: begin_turn(c, turn_id, conversation.id, question, regenerate_of=replaces))
    return turn_id


def done(turn_id: str, conversation_id: str, answer: str, citations: list[CitationEvent] | None = None) -> DoneEvent:
    return DoneEvent(
        turn_id=turn_id, conversation_id=conversation_id, status="answered", answer=answer, citations=citations or [],
        support=[], dropped_citations=0, seconds={"total": 0.1},
    )  # fmt: skip


def say(
    database: Database, conversation: ConversationSummary, question: str, answer: str, replaces: str | None = None
) -> str:
    turn_id = begin(database, conversation, question, replaces)
    ending, trace = done(turn_id, conversation.id, answer), trace_of(turn_id, conversation.id)
    database.write_blocking(lambda c: finish_turn(c, turn_id, answer, ending=ending, trace=trace))
    return turn_id


def new(database: Database, title: str = "") -> ConversationSummary:
    return database.write_blocking(lambda c: conversations.create(c, "docs", MINE, title))


def test_a_conversation_takes_its_title_from_its_first_question(database: Database) -> None:
    conversation = new(database)
    say(database, conversation, "How do I\n apply for   leave?", "With form A. [1]")
    say(database, conversation, "And by fax?", "No.")
    found = database.read_blocking(lambda c: conversations.detail(c, conversation.id, ALL))
    assert found is not None
    assert found.title == "How do I apply for leave?"
    assert [turn.question for turn in found.messages][1] == "And by fax?"
    assert found.turns == 2


def test_history_leaves_out_pending_turns_and_keeps_order(database: Database) -> None:
    conversation = new(database)
    say(database, conversation, "one?", "1")
    say(database, conversation, "two?", "2")
    begin(database, conversation, "three?")
    history = database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=None, limit=50))
    assert [turn.text for turn in history.messages] == ["one?", "1", "two?", "2"]
    newest = database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=None, limit=2))
    assert [turn.text for turn in newest.messages] == ["two?", "2"]
    assert not database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=None, limit=0))


def test_history_leaves_out_what_was_shown_as_not_borne_out(database: Database) -> None:
    def judged(answer: str, *wrong: str, doubted: bool = False, contradicted: bool = False) -> list[str]:
        conversation = new(database)
        turn_id = begin(database, conversation, "one?")
        places = [(answer.index(text), answer.index(text) + len(text)) for text in wrong]
        support = [
            SupportEvent(
                answer_start=start, answer_end=end, cited=[1], score=0.1, supported=False, contradicted=contradicted
            )
            for start, end in places
        ]
        ending = done(turn_id, conversation.id, answer).model_copy(update={"support": support, "doubted": doubted})
        trace = trace_of(turn_id, conversation.id)
        database.write_blocking(lambda c: finish_turn(c, turn_id, answer, ending=ending, trace=trace))
        history = database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=None, limit=50))
        return [turn.text for turn in history.messages[1:]]

    answer = "It is paid [1]. It lasts a year. [1] Ask the office [2]."
    assert judged(answer, "It lasts a year.", contradicted=True) == ["It is paid [1]. Ask the office [2]."]
    assert judged(answer, "It lasts a year.") == [answer]
    assert judged("It lasts a year [1].", "It lasts a year [1].", doubted=True) == []
    listed = "Either:\n\n1. by post [1]\n2. by pigeon [1]\n3. by fax [2]"
    assert judged(listed, "by pigeon [1]", contradicted=True) == ["Either:\n\n1. by post\n2. \n3. by fax"]


def test_an_edited_question_takes_the_place_of_all_that_followed(database: Database) -> None:
    conversation = new(database)
    say(database, conversation, "one?", "zebra")
    second = say(database, conversation, "two?", "giraffe")
    say(database, conversation, "three?", "3")
    say(database, conversation, "two, edited?", "okapi", replaces=second)
    found = database.read_blocking(lambda c: conversations.detail(c, conversation.id, ALL))
    assert found is not None
    assert [turn.question for turn in found.messages] == ["one?", "two, edited?"]
    assert database.read_blocking(lambda c: conversations.search(c, "giraffe", 10, 0, ALL)) == []
    assert len(database.read_blocking(lambda c: conversations.search(c, "okapi", 10, 0, ALL))) == 1


def questions(database: Database, conversation: ConversationSummary) -> list[str]:
    found = database.read_blocking(lambda c: conversations.detail(c, conversation.id, ALL))
    assert found is not None
    return [turn.question for turn in found.messages]


def test_every_version_is_kept_with_what_followed_it(database: Database) -> None:
    conversation = new(database)
    first = say(database, conversation, "one?", "zebra")
    second = say(database, conversation, "two?", "giraffe")
    third = say(database, conversation, "three?", "3")
    again = say(database, conversation, "two?", "okapi", replaces=second)
    say(database, conversation, "four?", "4")
    assert questions(database, conversation) == ["one?", "two?", "four?"]
    turn = database.read_blocking(lambda c: turns.find(c, again, ALL))
    assert turn is not None
    assert (turn.parent, turn.versions) == (first, (second, again))

    def show(turn_id: str) -> bool:
        return database.write_blocking(lambda c: turns.show(c, conversation.id, turn_id, ALL))

    assert show(second)
    assert questions(database, conversation) == ["one?", "two?", "three?"]
    assert len(database.read_blocking(lambda c: conversations.search(c, "giraffe", 10, 0, ALL))) == 1
    assert database.read_blocking(lambda c: conversations.search(c, "okapi", 10, 0, ALL)) == []
    # A version of what followed is remembered, also while another version of the turn before is shown.
    say(database, conversation, "three, edited?", "3b", replaces=third)
    assert show(again)
    assert questions(database, conversation) == ["one?", "two?", "four?"]
    assert show(second)
    assert questions(database, conversation) == ["one?", "two?", "three, edited?"]
    # What a turn has read is what it followed, whatever is shown.
    heard = database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=again, limit=50))
    assert [message.text for message in heard.messages] == ["one?", "zebra"]
    assert not show("nothing")
    assert not database.write_blocking(lambda c: turns.show(c, "another", second, ALL))


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        ("refund", True), ("fundab", True), ("refund zebra", False), ('"refund', False), ("refund AND policy", False),
        ("料金", True), ("50%", True), ("5_%", False), ("'; DROP TABLE turns; --", False),
    ],
)  # fmt: skip
def test_search_takes_words_literally(database: Database, query: str, hit: bool) -> None:
    conversation = new(database)
    say(database, conversation, "What is the Refund policy?", "It is refundable, 50% of the 料金 の払い戻し.")
    found = database.read_blocking(lambda c: conversations.search(c, query, 10, 0, ALL))
    assert bool(found) is hit
    if hit:
        assert query.replace("\0", " ").split()[0].casefold() in found[0].excerpt.casefold()


def test_search_takes_days_and_months(database: Database) -> None:
    old, young = new(database, "Parental leave"), new(database, "Parental leave, again")
    at = datetime(2025, 2, 28, 23, 59).timestamp()
    database.write_blocking(
        lambda c: c.execute(update(CONVERSATIONS).where(CONVERSATIONS.c.id == old.id).values(updated=at))
    )

    def found(query: str) -> set[str]:
        return {one.id for one in database.read_blocking(lambda c: conversations.search(c, query, 10, 0, ALL))}

    assert found("2025-02-28") == found("2025-02") == found("2025-02 parental") == {old.id}
    assert found("2025-02-27") == found("2025-03") == found("2025-02 sabbatical") == set()
    assert found("parental") == {old.id, young.id}
    assert found("2025-13") == found("9999-99-99") == set(), "what is no date is a word"


def test_search_finds_titles_and_forgets_old_ones(database: Database) -> None:
    conversation = new(database, "Parental leave")
    database.write_blocking(lambda c: conversations.change(c, conversation.id, ALL, title="Sabbatical"))
    assert database.read_blocking(lambda c: conversations.search(c, "parental", 10, 0, ALL)) == []
    assert database.read_blocking(lambda c: conversations.search(c, "sabbat", 10, 0, ALL))[0].title == "Sabbatical"


def test_a_deleted_conversation_takes_everything_with_it(database: Database) -> None:
    conversation, other = new(database), new(database)
    turn_id = say(database, conversation, "secret question?", "secret answer")
    kept = say(database, other, "other?", "other")
    database.write_blocking(lambda c: turns.rate(c, turn_id, "down", "wrong", "not so", ALL))
    assert database.write_blocking(lambda c: conversations.delete(c, conversation.id, ALL))
    assert database.read_blocking(lambda c: turns.find(c, turn_id, ALL)) is None
    assert database.read_blocking(lambda c: turns.trace(c, turn_id, ALL)) is None
    assert not database.read_blocking(lambda c: c.execute(select(FEEDBACK)).all())
    assert database.read_blocking(lambda c: conversations.search(c, "secret", 10, 0, ALL)) == []
    assert database.read_blocking(lambda c: turns.trace(c, kept, ALL)) is not None
    assert not database.write_blocking(lambda c: conversations.delete(c, conversation.id, ALL))


def test_a_turn_deleted_while_it_is_answered_does_not_come_back(database: Database) -> None:
    conversation = new(database)
    turn_id = begin(database, conversation, "one?")
    database.write_blocking(lambda c: conversations.delete(c, conversation.id, ALL))
    database.write_blocking(lambda c: finish_turn(c, turn_id, "", status="interrupted"))
    assert database.read_blocking(lambda c: turns.find(c, turn_id, ALL)) is None


def test_the_newest_feedback_counts(database: Database) -> None:
    turn_id = say(database, new(database), "Is it refundable?", "Yes.")
    database.write_blocking(lambda c: turns.rate(c, turn_id, "up", "", "", ALL))
    database.write_blocking(lambda c: turns.rate(c, turn_id, "down", "incomplete", "until when?", ALL))
    (record,) = database.read_blocking(lambda c: c.execute(select(FEEDBACK)).all())
    assert (record.rating, record.reason, record.comment) == ("down", "incomplete", "until when?")
    assert database.write_blocking(lambda c: turns.rate(c, "nothing", "up", "", "", ALL)) is None
    assert database.write_blocking(lambda c: turns.retract_rating(c, turn_id, ALL))
    assert not database.write_blocking(lambda c: turns.retract_rating(c, turn_id, ALL))


def test_export_shows_sources_failures_and_feedback(database: Database) -> None:
    conversation = new(database, "<b>Leave</b>")
    turn_id = begin(database, conversation, "How long?\nIn days?")
    citation = CitationEvent(
        n=1, passage_id="p", document_id="leave.md", title="Leave <script>", heading=["Length"], page=3,
        quote="Ten days.", start=0, end=9, answer_start=10, answer_end=13,
    )  # fmt: skip
    ending = done(turn_id, conversation.id, "Ten days. [1]", [citation])
    database.write_blocking(lambda c: finish_turn(c, turn_id, ending.answer, ending=ending))
    failed = begin(database, conversation, "And then?")
    error = ErrorEvent(turn_id=failed, conversation_id=conversation.id, code="llm_died", message="The model stopped.")
    database.write_blocking(lambda c: finish_turn(c, failed, "You", status="failed", ending=error))
    database.write_blocking(lambda c: turns.rate(c, turn_id, "up", "clear", "", ALL))
    found = database.read_blocking(lambda c: conversations.detail(c, conversation.id, ALL))
    assert found is not None
    markdown = conversations.as_markdown(found)
    assert "<script>" not in markdown
    assert "- [1] Leave \\<script\\> > Length, page 3 (`leave.md`): Ten days." in markdown
    assert "> How long?\n> In days?" in markdown
    assert "_No answer: The model stopped._" in markdown
    assert "_Rated up (clear)._" in markdown


def test_what_followed_turns_that_went_together_follows_the_one_before_them(database: Database) -> None:
    conversation = database.write_blocking(lambda c: conversations.create(c, "docs", MINE))
    first, *gone, last = [say(database, conversation, f"Question {n}?", "Yes.") for n in range(5)]
    database.write_blocking(lambda c: c.execute(delete(TURNS).where(TURNS.c.id.in_(gone))))
    left = database.read_blocking(lambda c: turns.of_conversation(c, conversation.id, ALL))
    assert [(turn.id, turn.parent) for turn in left] == [(first, None), (last, first)]


def test_the_statements_of_a_turn_are_built_once(database: Database) -> None:
    conversation, executed = new(database), list[object]()

    def turn() -> set[int]:
        executed.clear()
        turn_id = say(database, conversation, "How long is it?", "Two days.")
        database.write_blocking(lambda c: turns.checkpoint(c, turn_id, "Two"))
        database.read_blocking(lambda c: turns.history(c, conversation.id, ALL, before=turn_id, limit=9))
        return {id(statement) for statement in executed if "traces" not in str(statement)}

    for engine in (database.kind.writing, database.kind.reading):
        event.listen(engine, "before_execute", lambda connection, statement, *_: executed.append(statement))
    first = turn()
    assert len(first) == 6
    assert turn() == first
