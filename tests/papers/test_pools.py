"""The comparison of pools, on dialogs a scripted model wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from index.documents import Document
from papers.orconvqa.pools import POOLS, WAYS, Cell, measured
from synth.askers import ChatAsker
from synth.dialogs import read_dialogs
from synth.folder import SIDES, Folder
from synth.pipeline import SynthPlan, make_dialogs, make_propositions
from synth.propositions import read_propositions
from synth.tasks import Journal, Sampling, TaskRunner


@pytest.fixture
def cells(town_documents: list[Document], words: Any, town: Any, tmp_path: Path) -> list[Cell]:
    folder, sampling, plan = Folder(tmp_path / "run"), Sampling("scripted"), SynthPlan(list_size=4)
    with Journal(folder.journal) as journal, ChatAsker(town, sampling) as asker:
        settler = TaskRunner(journal, sampling, asker)
        built, facts = make_propositions(town_documents, plan, settler, words, folder)
        make_dialogs(built, plan, settler, words, folder, facts)
    dialogs = [dialog for side in SIDES for dialog in read_dialogs(folder.dialogs(side))]
    (tmp_path / "work").mkdir()
    return measured(town_documents, list(read_propositions(folder.propositions)), dialogs, words, tmp_path / "work")


def test_every_pool_is_asked_in_every_way(cells: list[Cell]) -> None:
    assert [(cell.pool, cell.way) for cell in cells] == [(pool, way) for pool in POOLS for way in WAYS]
    assert {cell.questions for cell in cells} == {10}


def test_a_sentence_counts_where_a_relevant_proposition_comes_from_it(cells: list[Cell]) -> None:
    sentences = {cell.way: cell for cell in cells if cell.pool == "sentence"}
    assert sentences["stand-alone"].passages["R@10"] == 1.0
    assert sentences["stand-alone"].documents["R@20"] == 1.0
