"""What the term rewriter reads, and which terms it picks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.protocol import Conversation, Message, RunError
from rewriter.terms import ConversationReader, Reading, TokenWindow, choose
from tests.rewriter.terms_fakes import write_tokenizer


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ConversationReader:
    return ConversationReader.open(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def said(*texts: str) -> Conversation:
    return Conversation(tuple(Message("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(texts)))


def chosen(conversation: Conversation, reading: Reading, wanted: set[str], most: int = 12) -> list[str]:
    chances = [0.9 if word.text.casefold() in wanted else 0.1 for word in reading.words]
    return [term.text for term in choose(conversation, reading, chances, 0.5, most)]


def test_the_question_comes_first_and_the_newest_turn_next(reader: ConversationReader) -> None:
    reading = reader.read(said("lamp", "fax", "fee", "permit"), "form")
    assert [word.text for word in reading.words] == ["permit", "fee", "fax", "lamp"]
    assert [reading.types[word.first] for word in reading.words] == [2, 1, 4, 3]
    assert reading.types[1] == 0


def test_words_of_the_question_and_stop_words_are_no_candidates(reader: ConversationReader) -> None:
    reading = reader.read(said("the forms and the permit", "by fax"), "which form?")
    assert [word.text for word in reading.words] == ["fax", "permit"]


def test_the_opening_question_is_read_however_long_the_conversation_is(reader: ConversationReader) -> None:
    conversation = said("renew the passport", *["fax the form to the office, office, office"] * 30)
    reading = reader.read(conversation, "how?")
    window = TokenWindow()
    assert any(word.message == 0 and word.text == "passport" for word in reading.words)
    assert len(reading.ids) <= window.question + window.history + len(conversation.messages) + 3
    assert max(reading.types) == 7


def test_long_turns_are_cut_and_half_read_words_are_left_out(reader: ConversationReader) -> None:
    reading = reader.read(said("lamp", "zzzzz " * 100), "how?")
    newest = [word for word in reading.words if word.message == 1]
    assert newest
    assert all(word.last - word.first == 5 and word.text == "zzzzz" for word in newest)
    assert max(word.last for word in newest) <= 3 + TokenWindow().assistant


def test_offsets_point_at_the_words_as_written(reader: ConversationReader) -> None:
    conversation = said("Das Straßenbüro: naïve PASSPORT, İstanbul 2024?", "ﬁne ✨ print")
    reading = reader.read(conversation, "how?")
    for word in reading.words:
        assert conversation.messages[word.message].text[word.start : word.end] == word.text
    assert {"PASSPORT", "2024", "print"} <= {word.text for word in reading.words}


def test_words_side_by_side_stay_one_term_in_the_order_of_the_conversation(reader: ConversationReader) -> None:
    conversation = said("the office for a long-term permit", "Fax the form 12-b. Office fee")
    reading = reader.read(conversation, "and it?")
    assert chosen(conversation, reading, {"long", "term", "permit", "12", "b"}) == ["long-term permit", "12-b"]


def test_the_likeliest_stems_are_kept_where_there_are_too_many(reader: ConversationReader) -> None:
    conversation = said("lamp, fax, fee, permit")
    reading = reader.read(conversation, "and it?")
    chances = {"lamp": 0.6, "fax": 0.9, "fee": 0.7, "permit": 0.8}
    terms = choose(conversation, reading, [chances[word.text] for word in reading.words], 0.5, most=2)
    assert [(term.text, term.score) for term in terms] == [("fax", 0.9), ("permit", 0.8)]


@pytest.mark.parametrize("text", ["", "  ", "?!", "😀", "\x00\ud800", "申请护照 パスポート", "a" * 5000])
def test_any_text_can_be_read(reader: ConversationReader, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    reading = reader.read(said(text, text), text)
    assert len(reading.ids) == len(reading.types)


def test_a_damaged_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is missing"):
        ConversationReader.open(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(RunError, match="is no tokenizer"):
        ConversationReader.open(tmp_path / "tokenizer.json")
