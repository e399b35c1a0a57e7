"""Options that several commands have, and flags in the shape of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.shared.state import State
from text.progress import track_progress

if TYPE_CHECKING:
    from evaluation.run_folder import RunWriter
    from server.settings import Settings


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
Judged = Annotated[
    Path, typer.Option("--questions", help="Judged questions, one JSON object a line (see docs/lab/evaluation.md).")
]
LanguageModel = Annotated[str, typer.Option(help="The language model (llm.model).")]
Queries = Annotated[Path, typer.Option(help="Questions, one JSON object a line (see docs/operate/cli.md).")]
Reranking = Annotated[
    Literal["auto", "always", "never"] | None, typer.Option(help="When to rerank (retrieval.rerank).")
]
Rewriting = Annotated[Literal["auto", "none", "prompted"] | None, typer.Option(help="The rewriter (rewriter.kind).")]
Searched = Annotated[str, typer.Option("--collection", "-c", help="The collection to search.")]
Where = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only passages with this metadata; may be repeated.")
]


Every = Annotated[int, typer.Option(min=1, help="Take every Nth question only.")]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(metavar="MEASURE=NUMBER", help="Exit with code 10 if a measure is below; may be repeated."),
]
Name = Annotated[str, typer.Option(help="Name of the run's folder; by default the time and the kind.")]
Out = Annotated[Path | None, typer.Option(help="Folder of runs; by default `eval/runs` in the home folder.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]


def overriding(**flags: object) -> dict[str, Any]:
    """Flags as settings: `llm__model="x"` becomes `{"llm": {"model": "x"}}`. None and the empty text say nothing."""
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == "":
            continue
        group, _, leaf = name.rpartition("__")
        (values.setdefault(group, {}) if group else values)[leaf] = value
    return values


def listed(text: str) -> list[str]:
    """The parts of a text between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def runs_folder(settings: Settings, out: Path | None) -> Path:
    """Where runs are kept: the folder that was given, else one in the home."""
    return out or settings.home / "eval" / "runs"


@contextmanager
def measured_run(
    state: State,
    settings: Settings,
    kind: str,
    name: str,
    out: Path | None,
    fail_under: Sequence[str] | None = None,
    *,
    resume: bool = False,
) -> Iterator[RunWriter]:
    """A run to write into. When all is measured it is finished and shown, and its gates are checked."""
    from evaluation.report import summary
    from evaluation.run_folder import check_gates, create_run, parse_gate

    gates = [parse_gate(gate) for gate in fail_under or ()]
    writer = create_run(runs_folder(settings, out), kind, name, resume=resume)
    with track_progress(writer.folder):
        yield writer
        run = writer.finish(settings)
    state.out.print(summary(run), soft_wrap=True)
    for note in run.notes:
        state.err.print(f"Note: {note}", style="yellow")
    state.err.print(f"Wrote {run.folder}.")
    check_gates(run.metrics, gates)
