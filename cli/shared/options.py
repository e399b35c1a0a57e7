"""Options that several commands have, and flags in the shape of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cli.shared.state import State

if TYPE_CHECKING:
    from evaluation.retrieval import Bench
    from evaluation.run_folder import RunWriter
    from rewriter.protocol import Rewriter
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
LanguageModel = Annotated[str, typer.Option(help="The language model (llm.model).")]
Queries = Annotated[Path, typer.Option(help="Questions, one JSON object a line (see docs/operate/cli.md).")]
Rewriting = Annotated[Literal["auto", "none", "prompted"] | None, typer.Option(help="The rewriter (rewriter.kind).")]
Searched = Annotated[str, typer.Option("--collection", "-c", help="The collection to search.")]
Where = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only passages with this metadata; may be repeated.")
]


Data = Annotated[Path | None, typer.Option(help="Folder of data sets (see docs/lab/evaluation.md).")]
Every = Annotated[int, typer.Option(min=1, help="Take every Nth question only.")]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(metavar="MEASURE=NUMBER", help="Exit with code 10 if a measure is below; may be repeated."),
]
Name = Annotated[str, typer.Option(help="Name of the run's folder; by default the time and the kind.")]
Out = Annotated[Path | None, typer.Option(help="Folder of runs; by default `eval/runs` in the home folder.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]
Sets = Annotated[str, typer.Option(help="Data sets, by commas (see docs/lab/evaluation.md); `*` stands for anything.")]


def overriding(**flags: object) -> dict[str, Any]:
    """Flags as settings: `llm__model="x"` becomes `{"llm": {"model": "x"}}`. None and the empty text say nothing."""
    values: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == "":
            continue
        group, _, leaf = name.rpartition("__")
        (values.setdefault(group, {}) if group else values)[leaf] = value
    return values


@contextmanager
def bench(settings: Settings, state: State, rerank: bool) -> Iterator[Bench]:
    """Everything systems are measured with; models are fetched first where they are missing."""
    from cli.shared.console import stages
    from cli.shared.resources import fetch_models
    from evaluation.retrieval import Bench, CachedEncoder, cached_reranker
    from server.chat.loaded_models import Models
    from text.modules import need_extra

    need_extra("eval", "Measuring", "ir_measures")
    fetch_models(settings, state, reranker=rerank)
    models = Models(settings)
    reranker = models.reranker() if rerank else None
    folder = settings.home / "eval"
    store = settings.index.store
    root = folder / ("collections" if store == "exact" else f"collections-{store}")
    with (
        stages(state.err) as progress,
        CachedEncoder(models.encoder(), folder / "embeddings.sqlite") as encoder,
        cached_reranker(reranker, folder / "read.sqlite") as reading,
    ):
        yield Bench(settings, encoder, models.encoder(), reranker, root, progress, reading)


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
    from text.progress import track_progress

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


@contextmanager
def open_form(form: str, settings: Settings, state: State) -> Iterator[Rewriter]:
    """The rewriter that a system's form names."""
    from cli.shared.resources import open_rewriter

    kinds = ("auto", "none", "prompted")
    kind, model = (form, "") if form in kinds else ("auto", form)
    flags = overriding(collection=settings.collection, rewriter__kind=kind, rewriter__model=model)
    with open_rewriter(state.settings(flags), state) as rewriter:
        yield rewriter
