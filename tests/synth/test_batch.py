"""Batch files: the same run as with a live model, step after step through files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from index.documents import Document
from synth.askers import BatchAsker, ChatAsker, read_responses
from synth.folder import Folder
from synth.pipeline import SynthPlan, make_dialogs, make_propositions
from synth.tasks import BadResponses, Journal, Paused, Sampling, TaskRunner
from tests.chat_model import ScriptedChatModel
from tests.towns import sensible

SAMPLING = Sampling("big-model", 0.0, 1)
PLAN = SynthPlan(list_size=4, seed=1)


def answered(requests: Path, responses: Path, script: Any = sensible) -> int:
    """What a batch service makes of a file of requests; in another order than asked."""
    lines = []
    for line in requests.read_text().splitlines():
        request = json.loads(line)
        assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
        body = request["body"]
        assert (body["model"], body["seed"], body["response_format"]["type"]) == ("big-model", 1, "json_schema")
        system, user, *_ = (message["content"] for message in body["messages"])
        text = script([SystemMessage(system), HumanMessage(user)])
        message = {"role": "assistant", "content": text}
        answer = {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        }
        response = {"status_code": 200, "body": answer}
        lines.append(json.dumps({"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}))
    responses.write_text("\n".join(reversed(lines)) + "\n")
    return len(lines)


class Batches:
    """Calls the program over and over, with files between."""

    def __init__(self, folder: Path, documents: list[Document], encoder: Any) -> None:
        self.folder = Folder(folder / "run")
        self.requests, self.responses = folder / "requests.jsonl", folder / "responses.jsonl"
        self._documents, self._encoder = documents, encoder

    def call(self) -> Any:
        """The run's facts once it is done, else None."""
        with Journal(self.folder.journal) as journal:
            if self.responses.exists():
                read_responses(self.responses, journal)
            runner = TaskRunner(journal, SAMPLING, BatchAsker(self.requests, SAMPLING))
            try:
                built, facts = make_propositions(self._documents, PLAN, runner, self._encoder, self.folder)
                return make_dialogs(built, PLAN, runner, self._encoder, self.folder, facts)
            except Paused:
                return None


@pytest.fixture
def batches(tmp_path: Path, town_documents: list[Document], words: Any) -> Batches:
    return Batches(tmp_path, town_documents, words)


def test_three_files_make_what_a_live_model_makes(
    batches: Batches, town_documents: list[Document], words: Any, tmp_path: Path
) -> None:
    asked = []
    while (facts := batches.call()) is None:
        asked.append(answered(batches.requests, batches.responses))
    assert asked == [3, 3, 6]

    live = Folder(tmp_path / "live")
    with Journal(live.journal) as journal, ChatAsker(ScriptedChatModel(script=sensible), SAMPLING) as asker:
        runner = TaskRunner(journal, SAMPLING, asker)
        built, facts_live = make_propositions(town_documents, PLAN, runner, words, live)
        facts_live = make_dialogs(built, PLAN, runner, words, live, facts_live)
    assert facts.questions == facts_live.questions == 10
    for name in ("propositions.jsonl", "dialogs.train.jsonl", "dialogs.dev.jsonl", "dialogs.test.jsonl"):
        assert (batches.folder.path / name).read_bytes() == (live.path / name).read_bytes()


def test_failed_requests_are_asked_again(batches: Batches) -> None:
    batches.call()
    rows = [json.loads(line) for line in batches.requests.read_text().splitlines()]
    failures = [
        {"custom_id": rows[0]["custom_id"], "response": None, "error": {"message": "expired"}},
        {"custom_id": rows[1]["custom_id"], "response": {"status_code": 500, "body": {"error": {"message": "no"}}}},
        {"custom_id": rows[2]["custom_id"], "response": {"status_code": 200, "body": {}}},
    ]
    batches.responses.write_text("".join(json.dumps(row) + "\n" for row in failures))
    assert batches.call() is None
    again = [json.loads(line) for line in batches.requests.read_text().splitlines()]
    assert len(again) == 3
    assert all(len(row["body"]["messages"]) == 2 for row in again), "there is no answer to complain about"


@pytest.mark.parametrize("line", ["{", '{"custom_id": 7}', '{"custom_id": "abc"}', '"text"'])
def test_a_file_that_holds_no_responses_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text(f"\n{line}\n")
    with Journal(tmp_path / "journal.jsonl") as journal, pytest.raises(BadResponses, match="line 2 is no batch"):
        read_responses(path, journal)
