"""`anaphora why`: citances in, the sentences of their sources out, resumable, without a language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.shared.error_handler import ExitCode
from papers.citation_summaries.__main__ import app

SENTENCES = [
    ("a", "Introduction", "Boilers heat houses in many a cold country."),
    ("b", "Introduction", "We propose a safety valve that opens by itself at four bar."),
    ("c", "Parts", "The pump moves warm water through the pipes."),
    ("d", "Parts", "Every pipe is made of copper."),
    ("e", "Parts", "A thermostat measures the rooms."),
    ("f", "Care", "The safety valve is to be cleaned once a year."),
    ("g", "Care", "Nobody likes cold feet."),
]
ROW: dict[str, Any] = {
    "id": "1",
    "citance": "A safety valve opens by itself at four bar (Smith, 2019).",
    "before": "Heating is old.",
    "after": "It is cheap.",
    "lead": "A text about boilers.",
    "sentences": [{"id": name, "section": section, "text": text} for name, section, text in SENTENCES],
}


def run(
    folder: Path, rows: list[dict[str, Any]], *words: str, code: int = ExitCode.OK
) -> tuple[list[dict[str, Any]], str]:
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    # No model is there, and none may be fetched: words alone are compared.
    config = ["--home", str(folder / "home"), "batch", "--input", str(source), "--out", str(out), "--model", "none"]
    result = CliRunner().invoke(app, [*config, *words], env={"ANAPHORA_INDEX__ENCODER": str(folder / "nothing")})
    assert result.exit_code == code, result.output
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if code == ExitCode.OK else []
    return found, result.output


def test_a_line_for_each_citance_with_its_whole_ranking_and_five_quotations_in_order(tmp_path: Path) -> None:
    unrelated = {**ROW, "id": "2", "citance": "Parsers of Nepali need dictionaries."}
    (found, refused), said = run(tmp_path, [ROW, unrelated])
    assert [set(found), set(refused)] == [{"id", "ranking", "shown", "lead_first"}] * 2
    assert (found["id"], refused["id"]) == ("1", "2")
    assert found["ranking"][0] == "b"
    assert sorted(found["ranking"]) == [name for name, *_ in SENTENCES]
    assert [one["ids"] for one in found["shown"]] == [[name] for name in sorted(found["ranking"][:5])]
    texts = {name: text for name, _, text in SENTENCES}
    assert all(one["text"] == texts[one["ids"][0]] for one in found["shown"])
    assert (refused["shown"], refused["lead_first"]) == ([], False), "no sentence could be matched"
    assert "Only words are compared" in said
    assert not (tmp_path / "out.jsonl.partial").exists()


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "1", "sentences": []}],
        [ROW, ROW],
        [{**ROW, "sentences": ["text"]}],
    ],
    ids=["no citance", "twice", "no objects"],
)
def test_a_bad_line_is_named(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    run(tmp_path, rows, code=ExitCode.BAD_INPUT)
