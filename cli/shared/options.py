"""Options that several commands have, and flags in the shape of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

Answering = Annotated[
    str, typer.Option(help="Registered name, GGUF file, hf:OWNER/REPO/FILE.gguf, ollama:NAME, vllm, URL, or none.")
]
Cpu = Annotated[bool, typer.Option("--cpu", help="Leave GPUs alone.")]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Never matching files, as in .gitignore; repeatable.")
]
Include = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Only matching files, as in .gitignore; repeatable.")
]
LanguageModel = Annotated[str, typer.Option(help="The language model (llm.model).")]
Queries = Annotated[Path, typer.Option(help="Questions, one JSON object a line (see docs/operate/cli.md).")]
Rewriting = Annotated[Literal["auto", "none", "prompted"] | None, typer.Option(help="The rewriter (rewriter.kind).")]
Searched = Annotated[str, typer.Option("--collection", "-c", help="The collection to search.")]
Where = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only passages with this metadata; may be repeated.")
]


GroupedBy: TypeAlias = Literal["kind", "depth", "answerability", "need", "domain"]
"""What results are told apart by."""

Answerable = Annotated[
    float, typer.Option(min=0.01, max=1, help="Share of the questions drawn that are marked answerable.")
]
By = Annotated[GroupedBy | None, typer.Option(help="Also a table of the parts of every set.")]
Data = Annotated[Path | None, typer.Option(help="Folder of data sets (see docs/lab/evaluation.md).")]
Every = Annotated[int, typer.Option(min=1, help="Take every Nth question only.")]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(metavar="MEASURE=NUMBER", help="Exit with code 10 if a measure is below; may be repeated."),
]
Name = Annotated[str, typer.Option(help="Name of the run's folder; by default the time and the kind.")]
Out = Annotated[Path | None, typer.Option(help="Folder of runs; by default `eval/runs` in the home folder.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]
Sets = Annotated[str, typer.Option(help="Data sets, by commas (see `anaphora eval sets`); `*` stands for anything.")]


def overriding(**flags: object) -> dict[str, Any]:
    """Flags as settings: `llm__model="x"` becomes `{"llm": {"model": "x"}}`. None and the empty text say nothing."""
    found: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == "":
            continue
        group, _, leaf = name.rpartition("__")
        (found.setdefault(group, {}) if group else found)[leaf] = value
    return found
