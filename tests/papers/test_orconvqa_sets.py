"""The paper's sets: Doc2Dial by spans and propositions, and its published files."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.datasets import load_set
from papers.orconvqa import sets
from tests.evaluation import evaluation_data as data


def test_units_of_doc2dial_are_judged_by_the_same_sections(tmp_path: Path) -> None:
    data.doc2dial(tmp_path)
    sets.add_sets()
    for name in ("doc2dial", "doc2dial-spans", "doc2dial-propositions"):
        found = load_set(name, tmp_path)
        section = next(level for level in found.levels if level.name == "section")
        assert section.qrels["q2"] == {"leave::sec1": 1}
    assert section.parents["p1"] == ("leave::sec1",)
    assert found.corpus is not None
    assert len(found.corpus) == 4, "propositions of other documents are left out"  # type: ignore[arg-type]


@pytest.mark.parametrize("several", [True, False])
def test_published_files_are_read_as_they_are(tmp_path: Path, several: bool) -> None:
    found = sets.json_folder(data.original(tmp_path / "a", several=several))
    assert [q.id for q in found.questions] == ["abc_1"], "thanks are no question: nothing grounds the answer"
    assert found.levels[0].qrels == {"abc_1": {"leave#1::sec1": 1}}
    assert found.levels[1].qrels == {"abc_1": {"leave#1": 1}}
    assert isinstance(found.corpus, tuple)
    assert [row["_id"] for row in found.corpus] == ["leave#1::sec0", "leave#1::sec1"]
