"""Erasing a document or a person leaves none of their words in any file of the home, while a server runs there too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from typer.testing import CliRunner, Result

from cli import add_plugin_commands, app
from cli.shared.error_handler import ExitCode
from plugins.compliance.erasing import forget_person
from server.access import Principal
from server.store import Database, conversations, credentials
from tests.openai_server import FakeOpenAIServer
from tests.rows import MINE
from tests.serving import MakeSettings, Running, Serve

add_plugin_commands()

SECRET = "The vault of the Quetzalberg branch opens with the sequence seven-nine-four."
OTHER = "Quetzalberg lies in the north, and has a branch that opens at eight in the morning."
DOCUMENT = f"# Vault\n\n## Opening\n\n{SECRET}\nNobody but the Plimsworth family knows where its key lies.\n"


@dataclass
class Place:
    """A running server over a home."""

    running: Running
    home: Path

    def conversation(self) -> str:
        with self.running.client() as client:
            return str(client.post("/v1/conversations", json={}).json()["id"])

    def ask(self, conversation: str, question: str) -> str:
        """The turn's id."""
        with self.running.client() as client:
            answer = client.post(f"/v1/conversations/{conversation}/turns", json={"question": question})
        assert "event: done" in answer.text
        return answer.headers["x-turn-id"]

    def get(self, path: str) -> dict[str, Any]:
        with self.running.client() as client:
            data: dict[str, Any] = client.get(path).json()
        return data

    def command(self, *words: str, code: int = ExitCode.OK) -> Result:
        result = CliRunner().invoke(app, ["--home", str(self.home), *words])
        assert result.exit_code == code, result.output
        return result

    def holding(self, text: str) -> list[str]:
        """The files of the home that hold a text."""
        return [
            path.name
            for path in self.home.rglob("*")
            if path.is_file() and "models" not in path.parts and text.lower().encode() in path.read_bytes().lower()
        ]


@pytest.fixture
def place(settings_for: MakeSettings, serve: Serve, llm: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    # A small model, whose text is folded away where it does not answer: that is erased, too.
    llm.pieces, llm.max_model_len = [f"{SECRET} [1]"], 4096
    settings = settings_for(llm.url)
    monkeypatch.setenv("ANAPHORA_INDEX__ENCODER", settings.index.encoder)
    monkeypatch.setenv("ANAPHORA_RETRIEVAL__RERANK", "never")
    return Place(serve(settings), settings.home)


def test_a_document_leaves_every_file(place: Place) -> None:
    place.running.upload("vault.md", DOCUMENT)
    place.running.upload("north.md", f"# North\n\n{OTHER}\n")
    conversation = place.conversation()
    turn = place.ask(conversation, "How does the vault open?")
    place.ask(conversation, "and who knows where its key lies?")
    with place.running.client() as client:
        client.post("/v1/feedback", json={"turn_id": turn, "rating": "up", "comment": f"Right: {SECRET}", "opened": 1})
    copied = place.conversation()
    place.ask(copied, f"Is this so: {SECRET}")
    elsewhere = place.ask(place.conversation(), "When does the branch open?")
    with place.running.client() as client:
        mark = {"document_id": "uploads/vault.md", "start": 0, "end": len(DOCUMENT) - 1}
        for reviewed, correction in ((turn, {"answer": SECRET}), (elsewhere, {"passages": [mark]})):
            review = client.post(f"/v1/reviews/{reviewed}", json={"verdict": "corrected", **correction})
            assert review.status_code == 201, review.text
        assert client.post("/v1/standalone", json={"turn_id": turn, "n": 1}).status_code == 200
    assert place.holding(SECRET)
    assert place.holding("plimsworth")
    output = place.command("erase", "document", "uploads/vault.md", "--yes").output
    assert "none is left" in output
    assert "1 documents" in output

    for planted in (SECRET, "plimsworth", "vault of the"):
        assert place.holding(planted) == [], planted
    conversation_left = place.get(f"/v1/conversations/{conversation}")
    messages = conversation_left["messages"]
    assert [message["question"] for message in messages] == [
        "How does the vault open?",
        "and who knows where its key lies?",
    ]
    assert "erased" in messages[0]["answer"]
    assert (messages[0]["done"]["citations"], messages[0]["opened"]) == ([], [])
    assert place.get("/v1/collections/docs/documents/uploads/north.md")["text"]
    # What is left can be searched and indexed as before.
    place.ask(conversation, "When does the branch open?")
    place.running.upload("other.md", "# Other\n\nAnother page altogether.\n")
    again = place.command("erase", "document", "uploads/vault.md", "--yes").output
    assert "Erased: 0 documents" in again
    assert "docs holds no document uploads/vault.md" in " ".join(again.split())


def test_a_file_of_an_indexed_folder_is_left_and_said(place: Place, tmp_path: Path, documents: Path) -> None:
    output = place.command("erase", "document", "travel.md", "--yes").output
    assert "was left alone" in " ".join(output.split())
    assert (documents / "travel.md").exists()
    assert place.holding("Taxi rides are refunded only") == []


def test_a_person_leaves_every_file_and_others_stay(place: Place) -> None:
    place.running.upload("mine.md", "# Mine\n\nThe allotment of the Wigglesby household is number thirty-one.\n")
    mine, theirs = place.conversation(), place.conversation()
    planted = "My name is Ottoline Wigglesby and my badge was stolen, what now?"
    turn = place.ask(mine, planted)
    shared = "How long is the parental leave, please?"
    place.ask(mine, shared)
    place.ask(theirs, shared)
    with place.running.client() as client:
        client.post("/v1/feedback", json={"turn_id": turn, "rating": "down", "comment": "Ottoline was not helped."})

    def become(connection: Connection) -> None:
        for owner, conversation in (("key:12345678", mine), ("key:other", theirs)):
            connection.exec_driver_sql("UPDATE conversations SET owner = ? WHERE id = ?", (owner, conversation))
            connection.exec_driver_sql("UPDATE turns SET owner = ? WHERE conversation_id = ?", (owner, conversation))
        connection.exec_driver_sql(
            "INSERT INTO reviews (turn_id, owner, at, verdict, answer) SELECT id, 'key:12345678', 1.0, 'corrected', "
            "'Ottoline says so, ask her.' FROM turns WHERE conversation_id = ?",
            (theirs,),
        )
        connection.exec_driver_sql("DELETE FROM uploads")
        connection.exec_driver_sql("INSERT INTO uploads VALUES ('docs', 'mine.md', 'key:12345678', 'default', 1, 1.0)")

    place.running.service.core.database.write_blocking(become)
    output = place.command("erase", "person", "key:12345678", "--yes").output
    assert "none is left" in output
    assert place.holding("ottoline") == []
    assert place.holding("wigglesby household") == []
    assert [conversation_row["id"] for conversation_row in place.get("/v1/conversations")["data"]] == [theirs]
    exported = [json.loads(line) for line in place.command("audit", "list", "--json").stdout.splitlines()]
    assert ("person.erase", "key:12345678") in {(row["action"], row["about"]) for row in exported}


def test_what_erase_refuses(place: Place) -> None:
    place.command("erase", "person", "Ann", "--yes", code=ExitCode.BAD_INPUT)
    place.command("erase", "document", "x.md", "--collection", "nothing", "--yes", code=ExitCode.NOT_FOUND)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_person_takes_links_and_sessions_along(tmp_path: Path) -> None:
    database, who = Database(tmp_path / "anaphora.db"), Principal("oidc:ann", "Ann", "agent", frozenset({"default"}))
    conversation = database.write_blocking(lambda c: conversations.create(c, "docs", MINE))
    database.write_blocking(lambda c: credentials.share(c, conversation.id, who, 60))
    session = database.write_blocking(lambda c: credentials.begin_session(c, who, 60))
    database.write_blocking(lambda c: forget_person(c, who.id))
    assert database.read_blocking(lambda c: credentials.list_shares(c, conversation.id)) == ()
    assert database.read_blocking(lambda c: credentials.find_session(c, session)) is None
    database.close()
