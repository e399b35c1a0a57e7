"""The run: documents → windows → propositions → dialogs → files.

Each step is a list of tasks that the runner brings to an outcome; everything after is computed from the outcomes, so a
run that is cut anywhere goes on from its journal. The task runner sends the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from index.documents import Document
from index.encoders import Encoder
from index.errors import LoadError
from index.loaders import walk
from index.loaders.files import MAX_FILE_MB
from index.loaders.sandbox import Limits, shared_pool
from synth.assembling import Rejected, SeenQuestions, assemble
from synth.dialogs import (
    CONTEXTUALISE,
    DIALOG,
    GROUND,
    Dialog,
    contextualising,
    dialog_line,
    grounding,
    make_lists,
    writing,
)
from synth.folder import SIDES, Folder, write_documents, write_rows
from synth.propositions import STEP as PROPOSITIONS
from synth.propositions import WINDOW_TOKENS, Built, DocumentWindow, build, extraction, windows
from synth.report import RunFacts, StepFacts, dialog_facts, proposition_facts, step_facts, write_report
from synth.tasks import NoDocuments, Outcome, Task, TaskRunner, chat_prompt
from text.files import write_text


@dataclass(frozen=True, slots=True)
class SynthPlan:
    """Content of a run. `windows_per_document` of 0 takes all; `list_size` is the paper's n."""

    windows_per_document: int = 0
    list_size: int = 30
    seed: int = 0


def read_sources(
    paths: Sequence[Path],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    left_out: Callable[[str, str], None] = lambda name, why: None,
) -> list[Document]:
    """The documents of files and folders; `left_out` hears of each that cannot be read. Raises NoDocuments."""
    documents: dict[str, Document] = {}
    for source in walk(paths, include, exclude):
        try:
            parsed = shared_pool(Limits()).parse(source.path, source.document_id, MAX_FILE_MB)
        except LoadError as error:
            left_out(source.document_id, str(error))
            continue
        for document in parsed.documents:
            if documents.setdefault(document.id, document) is not document:
                left_out(source.document_id, f"a document {document.id!r} came from an earlier file")
    if not documents:
        raise NoDocuments("There is no document in these paths; check them, --include and --exclude.")
    return list(documents.values())


def synthesise(
    documents: Sequence[Document],
    plan: SynthPlan,
    runner: TaskRunner,
    encoder: Encoder,
    folder: Folder,
    *,
    dialogs: bool = True,
    callback: Callable[[RunFacts], None] = lambda facts: None,
) -> RunFacts:
    """Everything of a run, reports included, as far as `dialogs` says; `callback` hears each half's numbers.

    Raises Paused while a step is open, or ModelFailed.
    """
    built, facts = make_propositions(documents, plan, runner, encoder, folder)
    callback(facts)
    write_report(folder, facts)
    if dialogs:
        facts = make_dialogs(built, plan, runner, encoder, folder, facts)
        callback(facts)
        write_report(folder, facts)
    return facts


def windows_of(documents: Sequence[Document], plan: SynthPlan, encoder: Encoder) -> list[DocumentWindow]:
    """The windows to be shown to the model, in document order."""
    most = plan.windows_per_document or None
    return [
        window
        for document in documents
        for window in islice(windows(document, WINDOW_TOKENS, encoder.count_tokens), most)
    ]


def make_propositions(
    documents: Sequence[Document], plan: SynthPlan, runner: TaskRunner, encoder: Encoder, folder: Folder
) -> tuple[Built, RunFacts]:
    """Ask for propositions and write `propositions.jsonl` and what was left out.

    Raises Paused while windows are open, or ModelFailed.
    """
    write_documents(folder.documents, documents)
    windows = windows_of(documents, plan, encoder)
    tasks = [extraction(window, encoder.count_tokens) for window in windows]
    outcomes = runner.settle(tasks)
    built = build(
        ((window, outcome.value or ()) for window, outcome in zip(windows, outcomes, strict=True)),
        encoder,
        runner.sampling.model,
    )
    write_rows(folder.propositions, built.kept)
    write_rows(folder.left_out, built.left_out)
    facts = RunFacts(
        model=runner.sampling.model,
        temperature=runner.sampling.temperature,
        seed=plan.seed,
        list_size=plan.list_size,
        window_tokens=WINDOW_TOKENS,
        documents=len(documents),
        windows=len(windows),
        steps={PROPOSITIONS: _facts_of(runner, tasks, outcomes, PROPOSITIONS)},
        **proposition_facts(built),
    )
    return built, facts


def make_dialogs(
    built: Built, plan: SynthPlan, runner: TaskRunner, encoder: Encoder, folder: Folder, facts: RunFacts
) -> RunFacts:
    """Ask for dialogs over the propositions, and write them, their rejections and numbers.

    A list whose dialog or grounding the model did not deliver is lost, and only that;
    where it did not deliver wordings, the questions stay complete.

    Raises Paused while a step is open, or ModelFailed.
    """
    lists, unused = make_lists(built.kept, plan.list_size, plan.seed)
    writing_tasks = [writing(material, encoder.count_tokens) for material in lists]
    drafts = runner.settle(writing_tasks)
    written = [(material, draft.value) for material, draft in zip(lists, drafts, strict=True) if draft.value]
    # Neither needs the other's answers: a batch of one carries both.
    wording_tasks = [contextualising(material, draft, encoder.count_tokens) for material, draft in written]
    ground_tasks = [grounding(material, draft) for material, draft in written]
    both: list[Task[Any]] = [*wording_tasks, *ground_tasks]
    settled = runner.settle(both)
    wordings, groundings = settled[: len(written)], settled[len(written) :]

    seen = SeenQuestions(encoder)
    dialogs: dict[str, list[Dialog]] = {side: [] for side in SIDES}
    rejected: list[Rejected] = []
    regrounded = 0
    for (material, draft), wording, ground in zip(written, wordings, groundings, strict=True):
        if ground.value is None:
            continue
        assembled = assemble(material, draft, wording.value, ground.value, seen, runner.sampling.model, plan.seed)
        rejected += assembled.rejected
        regrounded += assembled.regrounded
        if assembled.dialog is not None:
            dialogs[material.side].append(assembled.dialog)
    for side in SIDES:
        write_text(folder.dialogs(side), "".join(f"{dialog_line(dialog)}\n" for dialog in dialogs[side]))
    write_rows(folder.rejected, rejected)
    pairs = sum(len(draft.pairs) for _, draft in written)
    steps = {
        DIALOG: _facts_of(runner, writing_tasks, drafts, DIALOG),
        CONTEXTUALISE: _facts_of(runner, wording_tasks, wordings, CONTEXTUALISE),
        GROUND: _facts_of(runner, ground_tasks, groundings, GROUND),
    }
    return RunFacts(
        **{
            **facts.model_dump(),
            "steps": {**facts.steps, **steps},
            **dialog_facts(lists, unused, pairs, dialogs, rejected),
            "regrounded": regrounded,
        }
    )


def _facts_of(
    runner: TaskRunner, tasks: Sequence[Task[Any]], outcomes: Sequence[Outcome[Any]], prompt: str
) -> StepFacts:
    answers = [answer for task in tasks for answer in runner.answers(task)]
    return step_facts(outcomes, answers, chat_prompt(prompt).version)
