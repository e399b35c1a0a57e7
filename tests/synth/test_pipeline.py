"""The whole way from documents to files, with a model that answers by a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from index.documents import Document
from synth.askers import ChatAsker
from synth.dialogs import read_dialogs
from synth.folder import SIDES, Folder
from synth.pipeline import SynthPlan, make_dialogs, make_propositions
from synth.propositions import read_propositions
from synth.report import RunFacts
from synth.tasks import Journal, Sampling, TaskRunner

SAMPLING = Sampling("scripted")
Run = Callable[..., RunFacts]


@pytest.fixture
def run(town_documents: list[Document], words: Any, tmp_path: Path) -> Run:
    def make(model: Any, plan: SynthPlan | None = None, given: list[Document] | None = None) -> RunFacts:
        folder = Folder(tmp_path / "run")
        plan = plan or SynthPlan(list_size=4)
        with Journal(folder.journal) as journal, ChatAsker(model, SAMPLING, concurrency=2, waits=()) as asker:
            runner = TaskRunner(journal, SAMPLING, asker)
            built, facts = make_propositions(given or town_documents, plan, runner, words, folder)
            return make_dialogs(built, plan, runner, words, folder, facts)

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "run")


def dialogs_of(folder: Folder) -> list[Any]:
    return [dialog for side in SIDES for dialog in read_dialogs(folder.dialogs(side))]


def test_documents_become_dialogs_whose_every_question_has_its_propositions(
    run: Run, town: Any, folder: Folder
) -> None:
    facts = run(town)
    propositions = {one.id: one for one in read_propositions(folder.propositions)}
    questions = [turn for dialog in dialogs_of(folder) for turn in dialog.questions()]
    assert facts.propositions == len(propositions) == 10
    assert facts.questions == len(questions) == 10
    for turn in questions:
        for relevant in turn.relevant:
            assert propositions[relevant].document_id in turn.documents


def test_every_proposition_says_where_it_comes_from(
    run: Run, town: Any, folder: Folder, town_documents: list[Document]
) -> None:
    run(town)
    texts = {document.id: document.text for document in town_documents}
    for one in read_propositions(folder.propositions):
        assert texts[one.document_id][one.start : one.end] == one.source
    refund = next(one for one in read_propositions(folder.propositions) if "refundable" in one.text)
    assert refund.source == "The permit is not refundable."


def test_a_question_is_typed_as_within_the_conversation_and_kept_in_full(run: Run, town: Any, folder: Folder) -> None:
    facts = run(town)
    asked = {turn.rewrite: turn for dialog in dialogs_of(folder) for turn in dialog.questions()}
    turn = asked["Can I get a refund for a parking permit?"]
    assert turn.text == "And can I get a refund?"
    assert turn.needs_rewrite
    assert asked["When does the town library open?"].text == "When does the town library open?"
    assert facts.share_needing_rewrite == facts.needing_rewrite / 10


def test_no_document_is_on_two_sides(run: Run, town: Any, folder: Folder) -> None:
    run(town)
    on_side = {
        side: {name for dialog in read_dialogs(folder.dialogs(side)) for name in dialog.documents} for side in SIDES
    }
    assert all(on_side.values()), "every side has a document"
    assert not on_side["train"] & on_side["dev"]
    assert not on_side["train"] & on_side["test"]
    assert not on_side["dev"] & on_side["test"]


def test_a_second_run_asks_nothing_and_writes_the_same(run: Run, town: Any, folder: Folder) -> None:
    run(town)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    asked = len(town.asked)
    run(town)
    assert len(town.asked) == asked
    assert {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()} == before


def test_only_a_changed_document_is_asked_about_again(run: Run, town: Any, town_documents: list[Document]) -> None:
    from synth.tasks import chat_prompt

    run(town)
    asked = len(town.asked)
    run(town, given=town_documents[:2])
    system = chat_prompt("propositions").system
    assert not [messages for messages in town.asked[asked:] if messages[0].content == system]


def test_the_rewriters_reader_reads_the_rows(run: Run, town: Any, folder: Folder) -> None:
    from rewriter.examples import read_examples

    run(town)
    examples = {one.rewrite: one for side in SIDES for one in read_examples(folder.dialogs(side))}
    one = examples["Can I get a refund for a parking permit?"]
    assert one.question == "And can I get a refund?"
    assert one.needs_rewrite
    assert [turn.role for turn in one.history][-2:] == ["user", "assistant"]
