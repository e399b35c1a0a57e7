"""`anaphora adapt`: from documents to a rewriter made for them, promoted only where numbers say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.state import InputError, State, state_of
from cli.train import machine_of, with_fetched_base

if TYPE_CHECKING:
    from evaluation.adaptation.measuring import AdaptationVerdict
    from evaluation.adaptation.questions import HeldOutQuestion
    from evaluation.adaptation.steps import AdaptationState
    from rewriter.protocol import Rewriter
    from server.settings import Settings
    from server.turn.search import TurnSearch

QUESTIONS = 400
SEED = 13


def adapt(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders of documents.", show_default=False)],
    name: Annotated[
        str, typer.Option(help="Name of the adaptation, its collection and its run; the same name goes on.")
    ] = "adapted",
    recipe: Annotated[str, typer.Option(help="What to train: a recipe's name or a TOML file.")] = "terms",
    also: Annotated[
        list[Path] | None, typer.Option(help="Further training rows, such as reviewed feedback; may be repeated.")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="Held-out questions to measure on, at most.")] = QUESTIONS,
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Let the new rewriter serve where it is better.")
    ] = True,
    cpu: Annotated[bool, typer.Option("--cpu", help="Leave GPUs alone.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads of training; 0 leaves it to torch.")] = 0,
) -> None:
    """Index documents, make pairs from them, train, calibrate, measure before and after, and promote if better.

    A command that was stopped goes on with the step it was in.
    """
    from evaluation.adaptation.steps import AdaptationState
    from rewriter.runs import run_folder
    from text.extras import need_extra

    need_extra("train,eval", "Adapting a rewriter", "torch", "transformers", "onnx", "ir_measures")
    state = state_of(context)
    settings = state.settings({"collection": name})
    run_folder(settings.home, name)
    given = [path.expanduser().absolute() for path in paths]
    for path in given:
        if not path.exists():
            raise InputError(f"There is no file or folder {path}; correct the path.")
    wanted = {
        "documents": [str(path) for path in given],
        "recipe": recipe,
        "also": [str(path.absolute()) for path in also or ()],
        "questions": questions,
    }
    folder = settings.home / "adapt" / name
    work = _Adaptation(state, settings, name, given, AdaptationState(folder, wanted))
    work.step("index", lambda: work.index(context))
    work.step("pairs", lambda: work.pairs(context, also or []))
    work.foretell()
    work.step("train", lambda: work.train(recipe, cpu, threads))
    work.step("calibrate", work.calibrate)
    work.step("evaluate", work.evaluate)
    work.show()
    if promote:
        work.step("promote", work.promote)
    else:
        state.err.print(f"Not promoted, as asked. `anaphora models promote {name}` does it by hand.", markup=False)


class _Adaptation:
    """One adaptation; every step returns what the next ones need to know of it."""

    def __init__(
        self, state: State, settings: Settings, name: str, given: list[Path], progress: AdaptationState
    ) -> None:
        self._state = state
        self._settings = settings
        self._name = name
        self._given = given
        self._progress = progress
        self._folder = progress.folder
        self._run = settings.home / "rewriters" / name

    def step(self, step: str, work: Callable[[], dict[str, Any]]) -> None:
        """Do a step unless it is done."""
        done = self._progress.result(step)
        if done is None:
            self._say(f"{step} …")
            done = self._progress.finish(step, work())
        told = ", ".join(f"{key} {value}" for key, value in done.items() if isinstance(value, str | int | float))
        self._say(f"{step}: {told or 'done'}")

    def index(self, context: typer.Context) -> dict[str, Any]:
        """The documents as a collection of the adaptation's name."""
        from cli.index import index
        from index.collection import list_collections

        index(context, self._given, collection=self._name)
        (info,) = (one for one in list_collections(self._settings.home / "collections") if one.name == self._name)
        return {"documents": info.documents, "passages": info.passages, "version": info.version}

    def pairs(self, context: typer.Context, also: list[Path]) -> dict[str, Any]:
        """Rows to train on and held-out questions, from dialogs of the language model."""
        from evaluation.adaptation.pairs import add_rows, split_dialogs

        data = self._folder / "data"
        from cli.synth import make

        synth = self._folder / "synth"
        make(context, self._given, synth)
        if not (synth / "dialogs.test.jsonl").is_file():
            raise InputError(f"The dialogs in {synth} are not finished; run the same command again to go on.")
        train, held = split_dialogs(synth, data)
        return {"train": train + add_rows(data, also), "held out": held}

    def foretell(self) -> None:
        """Say, before the training, where too little is held out to judge it by; raises InputError where nothing is."""
        from evaluation.adaptation.measuring import LEAST

        if self._progress.result("train") is not None:
            return
        follow_ups = sum(one.example.needs_rewrite for one in self._asked("evaluate"))
        if follow_ups < LEAST:
            self._say(
                f"{follow_ups} held-out follow-ups will judge the new rewriter, and fewer than {LEAST} decide nothing: "
                "what is trained now can be promoted by hand alone. More documents give more."
            )

    def train(self, recipe: str, cpu: bool, threads: int) -> dict[str, Any]:
        """A run on the training side alone."""
        from evaluation.adaptation.pairs import TRAIN
        from rewriter.load import describe
        from rewriter.training import train
        from rewriter.training.recipe import read_adapting

        chosen = with_fetched_base(self._state, read_adapting(recipe, TRAIN))
        machine = machine_of(self._state, cpu, threads)
        train(chosen, self._folder / "data", self._run, machine=machine, callback=self._say)
        return {"run": self._name, "family": describe(self._run)["family"]}

    def calibrate(self) -> dict[str, Any]:
        """The threshold of the gate that finds most on a third of the held-out conversations."""
        from cli.progress import progress
        from evaluation.adaptation.gating import best, curve
        from rewriter.load import Serving, load_rewriter
        from rewriter.runs import gate_threshold, set_gate_threshold

        always = load_rewriter(self._run, Serving(timeout_seconds=60.0, threshold=0.0))
        own = gate_threshold(self._run)
        with self._searching(always) as search:
            asked = self._asked("calibrate")
            with progress(self._state.err, "calibrating", len(asked)) as counted:
                points = curve(search, always, self._name, asked, own, counted)
        chosen = best(points, own)
        set_gate_threshold(self._run, chosen.threshold)
        return {
            "threshold": chosen.threshold,
            "questions": len(asked),
            "curve": [asdict(point) for point in points],
        }

    def evaluate(self) -> dict[str, Any]:
        """The rewriter that serves now against the new one, on the other two thirds."""
        from cli.progress import progress
        from evaluation.adaptation.measuring import judge, measure
        from rewriter.load import Serving, load_rewriter
        from server.rewriters import open_rewriter

        asked = self._asked("evaluate")
        rewriters = {
            "before": open_rewriter(self._settings),
            "after": load_rewriter(self._run, Serving(timeout_seconds=60.0)),
        }
        found = {}
        for when, rewriter in rewriters.items():
            with (
                self._searching(rewriter) as search,
                progress(self._state.err, f"searching with {rewriter.name} ({when})", len(asked)) as counted,
            ):
                found[when] = measure(search, self._name, asked, counted=counted)
        verdict: AdaptationVerdict = judge(asked, found["before"], found["after"])
        speed = {when: [round(one.p50_ms, 1), round(one.p95_ms, 1)] for when, one in found.items()}
        return {
            **verdict.as_dict(),
            "before": rewriters["before"].name,
            "after": rewriters["after"].name,
            "milliseconds": speed,
        }

    def show(self) -> None:
        """The table of changes, and what follows from them."""
        from rich.table import Table
        from rich.text import Text

        result = self._progress.result("evaluate") or {}
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("questions", "level", "measure", "n", "before", "after", "p"):
            table.add_column(column, justify="left" if column in ("questions", "level", "measure") else "right")
        for change in result.get("changes", []):
            numbers = (f"{change['questions']:,}", f"{change['before']:.3f}", f"{change['after']:.3f}")
            table.add_row(Text(change["group"]), change["level"], change["measure"], *numbers, f"{change['p']:.3f}")
        self._state.out.print(table)
        p50 = {when: times[0] for when, times in result.get("milliseconds", {}).items()}
        self._state.out.print(
            f"before: {result.get('before')} ({p50.get('before')} ms a turn), "
            f"after: {result.get('after')} ({p50.get('after')} ms a turn). {result.get('reason')}",
            markup=False,
            highlight=False,
        )

    def promote(self) -> dict[str, Any]:
        """Let the new run serve, if it is better."""
        from rewriter.runs import promote

        result = self._progress.result("evaluate") or {}
        if not result.get("promote"):
            return {"promoted": "no"}
        before = promote(self._settings.home, self._name)
        return {"promoted": "yes", "instead of": before or "the packaged default"}

    def _asked(self, part: str) -> list[HeldOutQuestion]:
        """One part of the held-out questions, by conversation: what calibrates never evaluates."""
        from evaluation.adaptation.pairs import HELD, drawn
        from evaluation.adaptation.questions import from_dialogs

        held = self._folder / "data" / HELD
        synth = self._folder / "synth"
        asked = list(from_dialogs(held, synth / "propositions.jsonl"))
        chosen = drawn(asked, self._progress.wanted["questions"], SEED)
        if not chosen:
            raise InputError(
                "No held-out question has an answer that can be found in the documents: there is nothing to measure "
                "on. Give more documents."
            )
        dialogs = sorted({one.example.dialog for one in chosen})
        first = set(dialogs[::3])
        return [one for one in chosen if (one.example.dialog in first) == (part == "calibrate")]

    @contextmanager
    def _searching(self, rewriter: Rewriter) -> Iterator[TurnSearch]:
        """Searching as a turn would, with that rewriter."""
        from cli.resources import fetch_models, open_collection
        from server.chat.models import Models
        from server.turn.search import TurnSearch

        fetch_models(self._settings, self._state)
        models = Models(self._settings)
        with ExitStack() as stack:
            searched = stack.enter_context(open_collection(self._settings, models))
            yield TurnSearch(
                collection=lambda _: searched,
                rewriter=rewriter,
                settings=self._settings,
                reranker=models.reranker() if self._settings.retrieval.rerank != "never" else None,
            )

    def _say(self, text: str) -> None:
        self._state.err.print(f"{self._name}: {text}", markup=False, highlight=False)
