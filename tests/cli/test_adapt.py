"""`anaphora adapt` from documents to a measured run, and how it goes on after it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import app
from rewriter.examples import read_examples
from synth.dialogs import Dialog, DialogMessage, dialog_line
from synth.folder import Folder, write_rows
from synth.propositions import Proposition
from tests.scanning import scan
from tests.tiny_models import tiny_t5

THINGS = ("passport", "parking permit", "library card", "fishing licence", "bus pass", "birth certificate",
          "market stall", "garden waste bin", "town archive", "swimming pool", "youth club", "repair shop")  # fmt: skip
RECIPE = """
name = "tiny"
[model]
base = "BASE"
[stage]
steps = 3
batch = 4
evaluate_every = 2
data = [{ path = "rows.jsonl" }]
"""


@pytest.fixture
def home(home: Path) -> Path:
    (home / "anaphora.toml").write_text('[retrieval]\nrerank = "never"\n[rewriter]\nkind = "none"\n', "utf-8")
    return home


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Twelve pages of a town, one a thing."""
    folder = tmp_path / "town"
    folder.mkdir()
    for thing in THINGS:
        (folder / f"{thing.replace(' ', '-')}.md").write_text(
            f"# The {thing}\n\n"
            f"You can apply for a {thing} at the town office. The {thing} costs eleven pounds a year. "
            f"Residents must renew the {thing} every two years by mail.\n\n"
            f"## Rules for the {thing}\n\n"
            f"The {thing} is valid for all residents of the town. The town office sends a letter before the {thing} "
            f"expires. If you lose the {thing}, you must report the loss to the police within three days.\n\n"
            f"You need a photograph and a signed form to get the {thing}. The form is available at the library.\n",
            "utf-8",
        )
    return folder


@pytest.fixture
def dialogs(documents: Path, tmp_path: Path) -> Path:
    """What `anaphora synth` would have left of these pages: a dialog a thing, three of them held out."""
    folder = Folder(tmp_path / "synth")
    propositions: list[Proposition] = []
    lines: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    pages = {document.id: document for file in scan([documents]) for document in file.documents}
    for number, thing in enumerate(THINGS):
        name = f"{thing.replace(' ', '-')}.md"
        asked = (
            (f"Where do I apply for a {thing}?", "", "You can apply"),
            (f"What does the {thing} cost?", "and what does it cost?", f"The {thing} costs"),
            (f"How long is the {thing} valid?", "how long is it valid?", "Residents must renew"),
            (f"What if I lose the {thing}?", "what if I lose it?", "If you lose"),
        )
        turns: list[DialogMessage] = []
        for n, (full, typed, begins) in enumerate(asked):
            start = pages[name].text.index(begins)
            end = pages[name].text.index(".", start) + 1
            said = pages[name].text[start:end]
            propositions.append(
                Proposition(
                    _id=f"{number}-{n}", document_id=name, title="", text=said, start=start, end=end, source=said
                )
            )
            turns.append(DialogMessage(role="user", text=typed or full, rewrite=full, relevant=(f"{number}-{n}",)))
            turns.append(DialogMessage(role="assistant", text=said))
        side = {9: "dev", 10: "test", 11: "test"}.get(number, "train")
        lines[side].append(dialog_line(Dialog(dialog_id=name, documents=(name,), turns=tuple(turns))))
    write_rows(folder.propositions, propositions)
    for side, rows in lines.items():
        folder.dialogs(side).write_text("\n".join(rows) + "\n", "utf-8")
    return folder.path


def anaphora(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.extended
@pytest.mark.slow
def test_documents_become_a_measured_run_and_a_worthless_one_is_not_promoted(
    home: Path, documents: Path, dialogs: Path
) -> None:
    recipe = documents.parent / "tiny.toml"
    recipe.write_text(RECIPE.replace("BASE", str(tiny_t5(recipe.with_name("base")))), "utf-8")
    arguments = ("adapt", str(documents), "--name", "town", "--recipe", str(recipe), "--dialogs", str(dialogs), "--cpu")
    code, output = anaphora(home, *arguments, "--questions", "60")
    assert code == 0, output
    assert "fewer than 30 decide nothing" in output
    state = json.loads((home / "adapt" / "town" / "state.json").read_text("utf-8"))["done"]
    assert list(state) == ["index", "pairs", "train", "evaluate", "promote"]
    assert state["index"]["documents"] == 12
    assert state["pairs"]["train"] > state["pairs"]["held out"] > 0
    assert state["promote"] == {"promoted": "no"}
    assert {change["level"] for change in state["evaluate"]["changes"]} == {"passage", "document"}
    assert not (home / "rewriters" / "promoted.json").exists()
    trained, held = (
        {example.dialog for example in read_examples(home / "adapt/town/data" / name)}
        for name in ("train.jsonl", "held.jsonl")
    )
    assert trained
    assert held
    assert not trained & held
    before = (home / "rewriters" / "town" / "rewriter.json").stat().st_mtime_ns
    code, output = anaphora(home, *arguments, "--questions", "60")
    assert code == 0, output
    assert (home / "rewriters" / "town" / "rewriter.json").stat().st_mtime_ns == before
    code, output = anaphora(home, *arguments, "--questions", "61")
    assert code == 3
    assert "begun with other questions" in output


def test_without_a_model_dialogs_or_rows_it_says_so(
    home: Path, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAPHORA_LLM__MODEL", "none")
    code, output = anaphora(home, "adapt", str(documents))
    assert code == 3
    assert "There is nothing to make pairs from: name a language model" in output
    assert not (home / "collections").exists()
