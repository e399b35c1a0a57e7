"""Opening a rewriter from a folder: what is refused, and how."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rewriter.load import load_rewriter, packaged_folder
from rewriter.protocol import RunError
from tests.damages import DAMAGES, Damage


def test_a_folder_without_a_description_is_unfinished(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no finished rewriter"):
        load_rewriter(tmp_path)


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ("{", "cannot be read"),
        (json.dumps({"family": "psychic", "format": 1}), "names no family"),
        (json.dumps(["t5"]), "names no family"),
        (json.dumps({"family": "t5", "format": 9}), "format 9"),
    ],
)
def test_a_description_that_is_not_ours_is_refused(tmp_path: Path, description: str, says: str) -> None:
    (tmp_path / "rewriter.json").write_text(description, "utf-8")
    with pytest.raises(RunError, match=says):
        load_rewriter(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_damaged_files_of_the_packaged_rewriter_are_named_with_the_way_back(
    tmp_path: Path, file: str, damage: Damage
) -> None:
    packaged = packaged_folder()
    assert packaged is not None
    folder = Path(shutil.copytree(packaged, tmp_path / "run"))
    damage(folder / file)
    with pytest.raises(RunError, match=rf"{file} is .*([Ii]nstalled again|Copy or train it again)"):
        load_rewriter(folder)
