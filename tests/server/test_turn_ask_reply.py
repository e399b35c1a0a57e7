"""The reply to a question back: how it is understood, and that its section is found in a real collection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.encoders import Encoder
from index.indexer import index_paths
from rewriter import Conversation, Message
from rewriter.load import load_rewriter, packaged_folder
from rewriter.protocol import Rewriter
from server.turn.events import Alternative, DoneEvent, Event, Evidence, EvidenceEvent, RewriteEvent
from server.turn.models import TurnModels
from server.turn.run import TurnEngine
from server.turn.system_messages import QuestionBack, folded, history_for_model, understood
from tests.server.test_turn_ask_back import asking
from tests.server.turn_playing import done, play
from text.languages import speak

OFFERED = ("Postgres › Dump and restore", "Postgres › Replication", "MySQL › Dump", "Files")
ASKS = QuestionBack(tuple(Alternative(n=n, text=text) for n, text in enumerate(OFFERED, 1)), "Backups")
BEFORE = (Message("user", "hello, it runs on two servers"), Message("assistant", "Good."))
TALK = Conversation((*BEFORE, Message("user", "backup fails"), Message("assistant", ASKS.text)))


def chosen(reply: str) -> tuple[tuple[str, ...], str]:
    """What a reply chooses by place, and what it adds."""
    understood_reply = understood(TALK, reply)
    assert understood_reply is not None
    assert understood_reply.before == Conversation(BEFORE)
    return tuple(str(OFFERED.index(text) + 1) for text in understood_reply.chosen), understood_reply.said


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ("Postgres › Dump and restore", "1"), ("2", "2"), ("٢", "2"), ("２", "2"), ("option 3", "3"),
        ("The 2nd one, please", "2"), ("the last one", "4"), ("1 and 3", "13"), ("all of them", "1234"),
        ("das zweite", "2"), ("le deuxième", "2"), ("el último", "4"), ("选第2个吧", "2"), ("2番目です", "2"),
        ("الثاني", "2"), ("the replication one", "2"), ("mysql", "3"), ("restoring", "1"), ("one", "1"),
    ],
)  # fmt: skip
def test_a_choice_is_understood(reply: str, places: str) -> None:
    assert chosen(reply) == (tuple(places), "")


@pytest.mark.parametrize(
    ("reply", "places", "said"),
    [
        ("2, on windows", "2", "on windows"),
        ("the first one - since yesterday", "1", "since yesterday"),
        ("mysql, and only since yesterday", "", "mysql, and only since yesterday"),
        ("the mysql backup", "3", "the mysql backup"),
        ("version 2", "", "version 2"),
        ("we have no postgres", "", "we have no postgres"),
    ],
)
def test_a_choice_may_come_with_words_and_words_without_a_choice(reply: str, places: str, said: str) -> None:
    assert chosen(reply) == (tuple(places), said)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("none of these", ""), ("something else: the disk is full", "the disk is full"),
        ("no, it's about the disk", "the disk"), ("nein, sondern die Platte", "die Platte"), ("ninguno de estos", ""),
        ("都不是", ""), ("どれも違います、ディスクが満杯です", "ディスクが満杯です"), ("شيء آخر", ""),
    ],
)  # fmt: skip
def test_what_was_offered_may_be_declined(reply: str, said: str) -> None:
    declined = understood(TALK, reply)
    assert declined is not None
    assert (declined.chosen, declined.declined, declined.said) == ((), OFFERED, said)


@pytest.mark.parametrize(
    "message",
    [
        "how do I install postgres?", "first, how do I install it?", "something else: how do I uninstall it",
        "no, what is the fax number?", "moving on. the fax number", "boss deleted it by mistake!! can i roll it back",
        "Übrigens: die Faxnummer", "¿dónde está?", "怎么安装", "كيف أثبت البرنامج",
    ],
)  # fmt: skip
def test_what_asks_anew_is_no_reply(message: str) -> None:
    assert understood(TALK, message) is None
    assert folded([*TALK.messages, Message("user", message)]) == [*TALK.messages[:-1], Message("user", message)]


def test_a_reply_is_told_as_the_question_with_what_was_chosen_or_said() -> None:
    def told(reply: str, question: str = "backup fails") -> str:
        talk = Conversation((Message("user", question), Message("assistant", ASKS.text)))
        found = understood(talk, reply)
        assert found is not None
        return found.text

    assert told("2") == "backup fails (Backups › Postgres › Replication)"
    assert told("2", "why does it fail?") == "why does it fail (Backups › Postgres › Replication)?"
    assert told("mysql, on windows") == "backup fails (Backups › MySQL › Dump: mysql, on windows)"
    assert told("it hangs") == "backup fails (it hangs)"
    assert told("none of these") == "backup fails"


def test_only_the_newest_message_and_only_ours_is_replied_to() -> None:
    assert understood(Conversation((*TALK.messages, Message("user", "x"), Message("assistant", "y"))), "2") is None
    assert (
        understood(Conversation((Message("user", "x"), Message("assistant", "Which of these?\n\n1. a"))), "1") is None
    )
    assert understood(Conversation((Message("assistant", ASKS.text),)), "2") is None
    assert understood(Conversation((Message("user", ASKS.text),)), "2") is None


def test_later_turns_read_the_question_and_its_reply_as_one_question() -> None:
    said = (*TALK.messages, Message("user", "2"), Message("assistant", "Start the standby [1]."))
    assert history_for_model(said).messages == (
        *BEFORE,
        Message("user", "backup fails (Backups › Postgres › Replication)"),
        Message("assistant", "Start the standby [1]."),
    )
    assert history_for_model(TALK.messages) == TALK


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=30), min_size=2, max_size=4))
def test_any_reply_and_any_list_are_read(reply: str, offered: list[str]) -> None:
    asks = QuestionBack(tuple(Alternative(n=n, text=text) for n, text in enumerate(offered, 1)), "Backups")
    found = understood(Conversation((Message("user", "it fails"), Message("assistant", asks.text))), reply)
    if found is not None:
        assert len(found.text) <= len("it fails") + len(asks.text) + len(reply) + 20


PAGES = {
    "backups.md": """# Backups

## Postgres

The database runs on its own.

### Dump and restore

A dump is written every night at two. If it fails, look whether the role may read every table.

### Replication

A standby follows the server. If it fails to follow, its slot was dropped: make the slot again.

## MySQL

A copy is written every Sunday. If it fails, unlock the tables.

## Files

Files are copied by rsync. If it fails, the disk of the copy is full.
""",
    "monitoring.md": """# Monitoring

## When a check fails

A check of the backup that fails is repeated after five minutes, then the person on call is told.
""",
    "badges.md": """# Badges

## Lost badges

A lost badge must be reported within one hour. A new badge costs twenty euros.
""",
}


@pytest.fixture(scope="module")
def collection(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Pages about backups, in a real index."""
    folder, root = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("collections")
    for name, text in PAGES.items():
        (folder / name).write_text(text, "utf-8")
    index_paths(root, "docs", [folder], encoder)
    opened = Collection.open(root, "docs", encoder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def rewriter() -> Rewriter:
    folder = packaged_folder()
    assert folder is not None
    return load_rewriter(folder)


@pytest.fixture
def turns(collection: Collection, rewriter: Rewriter) -> TurnEngine:
    """Turns that ask back whenever they may, with the packaged rewriter and without a model."""
    return TurnEngine(collection=lambda _: collection, models=TurnModels(rewriter), settings=asking())


def asked_back_talk(turns: TurnEngine) -> tuple[Conversation, DoneEvent]:
    """A conversation that ends with a question back, and that question."""
    end = done(play(turns, "backup fails"))
    assert end.status == "asked"
    assert {one.text for one in end.alternatives} >= {"Backups › Postgres › Replication", "Backups › Files"}
    return Conversation((Message("user", "backup fails"), Message("assistant", end.answer))), end


def first(events: list[Event]) -> tuple[RewriteEvent, Evidence]:
    rewrite, evidence = events[:2]
    assert isinstance(rewrite, RewriteEvent)
    assert isinstance(evidence, EvidenceEvent)
    return rewrite, evidence.passages[0]


def test_what_is_chosen_is_what_is_found(turns: TurnEngine) -> None:
    talk, end = asked_back_talk(turns)
    for n, alternative in enumerate(end.alternatives, 1):
        for reply in (str(n), alternative.text):
            events = play(turns, reply, conversation=talk)
            rewrite, best = first(events)
            assert " › ".join((best.title, *best.heading)) == alternative.text
            assert (rewrite.question, rewrite.decision) == (reply, "reply")
            assert rewrite.text == f"backup fails ({alternative.text})"
            assert done(events).status != "asked", "nobody is asked twice"
    _, best = first(play(turns, "replication", conversation=talk))
    assert best.heading[-1] == "Replication"


def test_what_is_declined_comes_last_and_words_are_added_to_the_question(turns: TurnEngine) -> None:
    talk, end = asked_back_talk(turns)
    events = play(turns, "none of these", conversation=talk)
    _, best = first(events)
    assert not any(one.text.endswith(best.heading[-1]) for one in end.alternatives)
    rewrite, best = first(play(turns, "the tables are locked", conversation=talk))
    assert rewrite.text == "backup fails (the tables are locked)"
    assert best.heading[-1] in ("MySQL", "Dump and restore")


def test_a_new_question_behind_a_question_back_is_searched_by_itself(turns: TurnEngine) -> None:
    talk, _ = asked_back_talk(turns)
    rewrite, best = first(play(turns, "What does a new badge cost?", conversation=talk))
    assert not any("Which of these" in variant.text for variant in rewrite.variants)
    assert (rewrite.question, rewrite.text) == ("What does a new badge cost?", "What does a new badge cost?")
    assert best.heading[-1] == "Lost badges"


def test_the_reply_is_understood_in_the_language_that_was_spoken(turns: TurnEngine) -> None:
    try:
        speak("de")
        talk, end = asked_back_talk(turns)
    finally:
        speak("en")
    assert "oder was genau passiert?" in end.answer
    rewrite, _ = first(play(turns, "das zweite", conversation=talk))
    assert rewrite.text == f"backup fails ({end.alternatives[1].text})"
