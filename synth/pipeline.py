"""The run: documents → windows → propositions → dialogs → files.

Each step is a list of tasks that the settler brings to an outcome; everything after is computed from the
outcomes, so a run that is cut anywhere goes on from its journal. What is asked of whom is left to the settler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from index.documents import Document
from index.encoders import Encoder
from synth.folder import Folder, write_documents
from synth.propositions.build import Built, build
from synth.propositions.extract import extraction
from synth.propositions.store import write_rows
from synth.propositions.windows import WINDOW_TOKENS, Window, windows
from synth.running import Settler


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make. `windows_per_document` of 0 takes all; `list_size` is the paper's n."""

    window_tokens: int = WINDOW_TOKENS
    windows_per_document: int = 0
    list_size: int = 30
    seed: int = 0


def windows_of(documents: Sequence[Document], plan: Plan, encoder: Encoder) -> list[Window]:
    """The windows to be shown to the model, in document order."""
    most = plan.windows_per_document or None
    return [
        window
        for document in documents
        for window in islice(windows(document, plan.window_tokens, encoder.count_tokens), most)
    ]


def make_propositions(
    documents: Sequence[Document], plan: Plan, settler: Settler, encoder: Encoder, folder: Folder
) -> Built:
    """Ask for propositions and write `propositions.jsonl` and what was left out.

    Raises Paused while windows are open, or ModelFailed.
    """
    write_documents(folder.documents, documents)
    shown = windows_of(documents, plan, encoder)
    tasks = [extraction(window, encoder.count_tokens) for window in shown]
    outcomes = settler.settle(tasks)
    built = build(
        ((window, outcome.value or ()) for window, outcome in zip(shown, outcomes, strict=True)),
        encoder,
        settler.sampling.model,
    )
    write_rows(folder.propositions, built.kept)
    write_rows(folder.left_out, built.left_out)
    return built
