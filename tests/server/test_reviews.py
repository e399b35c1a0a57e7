"""Reviews over HTTP: turns in the order of doubt, what people make of them, and what follows from that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from typer.testing import CliRunner

from cli import app
from evaluation.held_out import from_reviewed, split
from evaluation.sets import own_questions
from rewriter.examples import read_examples
from tests.openai_server import FakeOpenAIServer
from tests.server.test_api_conversations import ask, begin


def listed(client: Any, **query: object) -> list[tuple[str, list[str]]]:
    found = client.get("/v1/reviews", params=query).json()
    return [(one["question"], one["doubts"]) for one in found["data"]]


def test_turns_come_by_doubt_and_reviews_are_rows(running: Any) -> None:
    with running.client() as client:
        talk = begin(client)
        turns = [
            ask(client, talk, "How long is parental leave?")[-1]["turn_id"],
            ask(client, talk, "And by fax?")[-1]["turn_id"],
            ask(client, talk, "and to what number", search_for="number of the personnel office fax")[-1]["turn_id"],
        ]
        client.post("/v1/feedback", json={"turn_id": turns[0], "rating": "down"})
        found = listed(client)
        assert [question for question, _ in found][:2] == ["How long is parental leave?", "and to what number"]
        assert "rated" in found[0][1]
        assert "edited" in found[1][1]
        assert listed(client, doubt="edited")[0][0] == "and to what number"
        assert [question for question, _ in listed(client, query="FAX")] == ["And by fax?"]
        assert listed(client, collection="other") == []
        page = client.get("/v1/reviews", params={"limit": 1, "offset": 1}).json()
        assert (len(page["data"]), page["total"]) == (1, 3)

        # What was not said stays as it was; each word is a row.
        at = f"/v1/reviews/{turns[1]}"
        fax = client.get("/v1/collections/docs/documents/leave.md").json()["text"]
        start = fax.index("The form may")
        mark = {"document_id": "leave.md", "start": start, "end": fax.index("555-0199") + 9}
        said = {"verdict": "corrected", "rewrite": " Can the leave form be sent by fax? "}
        assert client.post(at, json=said).json()["current"]["rewrite"] == "Can the leave form be sent by fax?"
        both = client.post(at, json={"verdict": "corrected", "passages": [mark]}).json()
        assert both["current"]["rewrite"] == "Can the leave form be sent by fax?"
        assert both["current"]["passages"][0]["quote"].startswith("The form may also be sent by fax")
        assert [(row["verdict"], row["by"]) for row in both["rows"]] == [("corrected", "local")] * 2
        assert both["history"][0]["text"] == "How long is parental leave?"
        assert listed(client, state="done") == [("And by fax?", both["doubts"])]

        undone = client.post(at, json={"verdict": "undone"}).json()
        assert undone["current"]["passages"] is None
        assert [row["verdict"] for row in undone["rows"]] == ["corrected", "corrected", "undone"]
        assert client.post(at, json={"verdict": "undone"}).json()["current"] is None
        assert client.post(at, json={"verdict": "undone"}).status_code == 404
        assert len(listed(client)) == 3

        for wrong in ({"start": 5, "end": 5}, {"end": 10**6}, {"document_id": "../x"}):
            refused = client.post(at, json={"verdict": "corrected", "passages": [mark | wrong]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "passage_not_found")
        assert client.post("/v1/reviews/nothing", json={"verdict": "approved"}).status_code == 404
        with pytest.raises(IntegrityError, match="only added to"):
            running.service.core.database.write_blocking(lambda c: c.exec_driver_sql("UPDATE reviews SET owner = 'me'"))
        assert client.delete(f"/v1/conversations/{talk}").status_code == 204
    assert not running.service.core.database.read_blocking(
        lambda c: c.exec_driver_sql("SELECT * FROM reviews").fetchall()
    )


def test_folded_doubted_and_contradicted_answers_are_counted(running: Any, llm: FakeOpenAIServer) -> None:
    def turn(endings: dict[str, dict[str, Any]]) -> None:
        for turn_id, changes in endings.items():
            (text,) = database.read_blocking(
                lambda c, turn_id=turn_id: c.exec_driver_sql(f"SELECT ending FROM turns WHERE id = '{turn_id}'").one()
            )
            changed = json.dumps({**json.loads(text), "folded": "", **changes})
            database.write_blocking(
                lambda c, turn_id=turn_id, changed=changed: c.exec_driver_sql(
                    "UPDATE turns SET ending = ? WHERE id = ?", (changed, turn_id)
                )
            )

    database = running.service.core.database
    llm.max_model_len = 4096
    with running.client() as client:
        talk = begin(client)
        llm.pieces = ["The mayor of Springfield studied medieval falconry [1]."]
        folded = ask(client, talk, "How long does parental leave last?")[-1]
        assert (folded["status"], folded["folded"]) == ("quoted", "".join(llm.pieces))
        llm.pieces = ["Parental leave lasts ten weeks. [1]"]
        asked = [f"How long is parental leave{mark}" for mark in ("", "?", ", please?")]
        others = [ask(client, talk, question)[-1]["turn_id"] for question in asked]
        judged = {"answer_start": 0, "answer_end": 5, "cited": [1], "score": 0.9}
        turn({
            others[0]: {"doubted": True},
            others[1]: {"support": [{**judged, "supported": False, "contradicted": True}]},
            others[2]: {"support": [{**judged, "supported": True, "contradicted": False}]},
        })  # fmt: skip
        found = {one["turn_id"]: set(one["doubts"]) for one in client.get("/v1/reviews").json()["data"]}
        (day,) = client.get("/v1/statistics?days=1").json()["days"]
    assert found[folded["turn_id"]] >= {"folded"}
    assert found[others[0]] >= {"doubted"}
    assert found[others[1]] >= {"contradicted", "unsupported"}
    assert not found[others[2]] & {"folded", "doubted", "contradicted", "unsupported"}
    assert {name: day[name] for name in ("turns", "folded", "doubted", "contradicted")} == {
        "turns": 4, "folded": 1, "doubted": 1, "contradicted": 1,
    }  # fmt: skip


def test_a_corrected_turn_teaches_only_the_passages_that_a_person_marked(running: Any, llm: FakeOpenAIServer) -> None:
    with running.client() as client:
        talk = begin(client)
        turn = ask(client, talk, "How long is parental leave?")[-1]["turn_id"]
        at = f"/v1/reviews/{turn}"

        def say(verdict: str, **fields: object) -> dict[str, Any]:
            current: dict[str, Any] = client.post(at, json={"verdict": verdict, **fields}).json()["current"]
            return current

        # As it was: the citation of its answer, also where the same question is written again.
        assert "ten weeks" in say("approved")["passages"][0]["quote"]
        assert say("corrected", rewrite="how long is parental leave")["passages"]
        for correction in ({"rewrite": "Who signs the leave form?"}, {"answer": "Eleven weeks since May."}):
            corrected = say("corrected", **correction)
            assert (corrected["passages"], corrected | correction) == (None, corrected)
            approved = say("approved")
            assert (approved["passages"], approved | correction) == (None, approved)
            assert approved["answer"]
            client.post(at, json={"verdict": "rejected"})
            say("approved")
        # What a person marked stays, through a correction and an approval.
        mark = {"document_id": "travel.md", "start": 0, "end": 17}
        say("corrected", passages=[mark])
        say("corrected", answer="Eleven weeks.")
        assert say("approved")["passages"] == [mark | {"quote": "# Travel expenses"}]

        # A refusal of another question says nothing of the one that was meant; who says that none answers is believed.
        llm.pieces = ("<cannot_answer>",)
        at = f"/v1/reviews/{ask(client, talk, 'Who feeds the zebra?')[-1]['turn_id']}"
        assert say("approved")["passages"] == []
        assert say("corrected", answer="The porter.")["passages"] is None
        say("corrected", passages=[])
        assert say("corrected", answer="The porter does.")["passages"] == []
        assert say("approved")["passages"] == []


def test_ratings_and_edited_searches_teach_and_never_judge(running: Any, tmp_path: Path) -> None:
    with running.client() as client:
        talk = begin(client)
        liked, edited, disliked, _ = (
            ask(client, talk, question, **more)[-1]["turn_id"]
            for question, more in (
                ("How long is parental leave?", {}),
                ("and to what number", {"search_for": "number of the personnel office fax"}),
                ("by letter", {"search_for": "parental leave by letter"}),
                ("who signs it", {}),
            )
        )
        client.post("/v1/feedback", json={"turn_id": liked, "rating": "up"})
        client.post("/v1/feedback", json={"turn_id": disliked, "rating": "down"})
    line = ["--home", str(running.service.settings.home), "adapt", "-c", "docs", "--export", str(tmp_path / "used")]
    assert CliRunner().invoke(app, [*line, "--from", "review"]).exit_code == 3
    told = CliRunner().invoke(app, [*line, "--from", "use"])
    assert "2 reviewed or used turns of 1 conversation" in " ".join(told.output.split())
    (dialog,) = map(json.loads, (tmp_path / "used").read_text("utf-8").splitlines())
    asked = {turn["turn_id"]: turn for turn in dialog["turns"] if turn["role"] == "user"}
    assert asked[liked]["evidence"]
    assert asked[edited]["rewrite"] == "number of the personnel office fax"
    assert "evidence" not in asked[edited]
    assert all(turn["judged"] is False for turn in asked.values())
    taught = [one.rewrite for one in read_examples(tmp_path / "used")]
    assert taught == [asked[liked]["rewrite"], asked[edited]["rewrite"]]


def test_opened_sources_and_questions_asked_again_in_full_teach_and_never_judge(
    running: Any, llm: FakeOpenAIServer, tmp_path: Path
) -> None:
    answers = llm.pieces
    with running.client() as client:
        talk, turns = begin(client), list[str]()
        for question, found in (
            ("How long is parental leave?", True),
            ("And by fax?", False),
            ("Parental leave by fax?", True),
            ("And by letter?", False),
            # This may be another question: nobody had spoken of a badge.
            ("A badge by letter?", True),
            ("by post", False),
            ("Is parental leave by post?", True),
            ("who signs it", False),
            ("Who pays for a taxi?", True),
        ):
            llm.pieces = answers if found else ("<cannot_answer>",)
            turns.append(ask(client, talk, question)[-1]["turn_id"])
        opened, fax, in_full, _, badge, rejected, again, _, disliked = turns
        for turn in (opened, in_full, badge, again, disliked):
            client.post("/v1/feedback", json={"turn_id": turn, "opened": 2})
        client.post("/v1/feedback", json={"turn_id": disliked, "rating": "down"})
        client.post(f"/v1/reviews/{rejected}", json={"verdict": "rejected"})
        second = client.get(f"/v1/turns/{opened}").json()["evidence"]["passages"][1]
    out = tmp_path / "used"
    line = ["--home", str(running.service.settings.home), "adapt", "-c", "docs", "--export", str(out), "--from", "use"]
    assert CliRunner().invoke(app, line).exit_code == 0
    (dialog,) = map(json.loads, out.read_text("utf-8").splitlines())
    asked = {turn["turn_id"]: turn for turn in dialog["turns"] if turn["role"] == "user"}
    assert {turn for turn, said in asked.items() if "rewrite" in said} == {opened, fax, in_full, badge, again}
    assert asked[opened]["evidence"] == [{"document": second["document_id"], "quote": second["text"]}]
    assert "answer" not in asked[opened]
    assert asked[fax]["rewrite"] == asked[in_full]["rewrite"] == "Parental leave by fax?"
    assert all(turn["judged"] is False for turn in asked.values())
    # Of the side that judges it is no evidence; the other side learns by it.
    whole, learnt, held = tmp_path / "whole", tmp_path / "learnt", tmp_path / "held"
    whole.write_text(out.read_text("utf-8") * 2, "utf-8")
    split(whole, learnt, held, seed=1)
    assert list(from_reviewed(held)) == []
    assert next(from_reviewed(learnt)).quotes[0].text == second["text"]


def test_reviewed_turns_are_pairs_and_an_evaluation_set(running: Any, tmp_path: Path) -> None:
    with running.client() as client:
        talk = begin(client)
        for question in ("How long is parental leave?", "and by fax?", "who signs it", "what does it cost"):
            ask(client, talk, question)
        turns = [one["id"] for one in client.get(f"/v1/conversations/{talk}").json()["messages"]]
        client.post(f"/v1/reviews/{turns[0]}", json={"verdict": "approved"})
        corrected = {"verdict": "corrected", "rewrite": "Can parental leave be applied for by fax?", "passages": []}
        client.post(f"/v1/reviews/{turns[1]}", json=corrected | {"answer": "Yes, to 555-0199."})
        client.post(f"/v1/reviews/{turns[2]}", json={"verdict": "corrected", "rewrite": "Who signs the leave form?"})
        client.post(f"/v1/reviews/{turns[3]}", json=corrected)
        client.post(f"/v1/reviews/{turns[3]}", json={"verdict": "rejected"})
    out = tmp_path / "reviewed.jsonl"
    home = running.service.settings.home
    result = CliRunner().invoke(
        app, ["--home", str(home), "adapt", "--from", "review", "--export", str(out), "-c", "docs"]
    )
    assert result.exit_code == 0, result.output
    assert "3 reviewed turns of 1 conversation" in " ".join(result.output.split())
    (dialog,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert [turn["role"] for turn in dialog["turns"]].count("user") == 3

    pairs = list(read_examples(out))
    assert [one.rewrite for one in pairs] == [
        "How long is parental leave?",
        "Can parental leave be applied for by fax?",
        "Who signs the leave form?",
    ]
    assert pairs[1].history[0].text == "How long is parental leave?"
    assert {one.dialog for one in pairs} == {talk}
    chosen = own_questions(out)
    approved, unanswerable, _ = chosen.questions
    assert chosen.quotes[approved.id][0].document == "leave.md"
    assert (unanswerable.answerability, unanswerable.answer) == ("unanswerable", "Yes, to 555-0199.")
    assert unanswerable.kind == "ellipsis"
