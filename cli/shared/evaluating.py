"""What the subcommands of `anaphora eval` share: the models they measure with, the run they write, how they end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli.shared.options import GroupedBy, overriding
from cli.shared.state import InputError, State
from text.progress import track_progress

if TYPE_CHECKING:
    from evaluation.reports.runs import RunWriter
    from evaluation.retrieval import Bench
    from rewriter.protocol import Rewriter
    from server.settings import Settings


@contextmanager
def bench(settings: Settings, state: State, rerank: bool) -> Iterator[Bench]:
    """Everything systems are measured with; models are fetched first where they are missing."""
    from cli.shared.progress import stages
    from cli.shared.resources import fetch_models
    from evaluation.embeddings import CachedEncoder, cached_reranker
    from evaluation.retrieval import Bench
    from server.chat.models import Models
    from text.extras import need_extra

    need_extra("eval", "Measuring", "ir_measures", "nltk", "rouge_score", "sacrebleu")
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


def data_folder(data: Path | None) -> Path:
    """The folder of data sets. Raises InputError where none was given."""
    if data is None:
        raise InputError("Say where the data sets are: --data.")
    return data


def deadline(minutes: float) -> float:
    """When so many minutes are over (`time.monotonic`); never for 0."""
    return time.monotonic() + 60 * minutes if minutes > 0 else math.inf


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
    by: GroupedBy | None = None,
) -> Iterator[RunWriter]:
    """A run to write into. When all is measured it is finished and shown, and its gates are checked."""
    from evaluation.reports import tables
    from evaluation.reports.gates import check, parse_gate
    from evaluation.reports.runs import create_run

    gates = [parse_gate(gate) for gate in fail_under or ()]
    writer = create_run(runs_folder(settings, out), kind, name, resume=resume)
    with track_progress(writer.folder):
        yield writer
        run = writer.finish(settings)
    state.out.print(tables.summary(run), soft_wrap=True)
    if by is not None:
        state.out.print("", tables.parts(run, by), sep="\n", soft_wrap=True)
    for note in run.notes:
        state.err.print(f"Note: {note}", style="yellow")
    state.err.print(f"Wrote {run.folder}.")
    check(run.metrics, gates)


@contextmanager
def open_form(form: str, settings: Settings, state: State) -> Iterator[Rewriter]:
    """The rewriter that a system's form names."""
    from cli.shared.resources import open_rewriter

    kinds = ("auto", "none", "prompted")
    kind, model = (form, "") if form in kinds else ("auto", form)
    flags = overriding(collection=settings.collection, rewriter__kind=kind, rewriter__model=model)
    with open_rewriter(state.settings(flags), state) as rewriter:
        yield rewriter


def write_file(path: Path, text: str) -> None:
    """Write a file of text, with the folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
