"""`anaphora adapt`: from documents to a rewriter made for them, promoted only where numbers say so.

The steps are `evaluation.adaptation`'s; here they are given this installation's models, and their result is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from cli.index import index_files
from cli.shared.console import open_table, progress
from cli.shared.options import Cpu, LanguageModel, overriding
from cli.shared.resources import audit, existing, fetch_models, open_collection, open_database
from cli.shared.state import InputError, State, state_of
from cli.synth import have_written
from cli.train import machine_of, with_fetched_base
from text.files import write_text
from text.modules import need_extra
from text.progress import track_progress

if TYPE_CHECKING:
    from evaluation.adaptation import AdaptationResult
    from rewriter.protocol import Rewriter
    from server.chat.loaded_models import Models
    from server.settings import Settings
    from server.store.reviewed import ReviewedDialog
    from server.turn.search import TurnSearch
    from synth import Folder


def adapt(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders of documents.", show_default=False)
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the adaptation, its collection and its run; the same name goes on.")
    ] = "adapted",
    collection: Annotated[
        str,
        typer.Option(
            "--collection",
            "-c",
            help="Collection to index into; by default one of that name, with --from review the settings' one.",
        ),
    ] = "",
    recipe: Annotated[str, typer.Option(help="What to train: a recipe's name or a TOML file.")] = "terms",
    model: LanguageModel = "",
    dialogs: Annotated[
        Path | None, typer.Option(help="Finished folder of `anaphora synth`, instead of having dialogs written here.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Further training rows, such as reviewed feedback (JSONL); may be repeated."),
    ] = None,
    source: Annotated[
        Literal["review", "use"] | None,
        typer.Option(
            "--from",
            help="`review`: learn from what was reviewed on the workbench; half of it judges. `use`: learn also from "
            "turns that were rated up, opened sources, searches written anew and questions asked again in full; these "
            "never judge.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="With --from: write what it takes into this file (JSONL), and train nothing."),
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="Held-out questions to measure on, at most.")] = 400,
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Let the new rewriter serve where it is better.")
    ] = True,
    cpu: Cpu = False,
) -> None:
    """Index documents, make pairs from them, train, measure before and after, and promote if better.

    A command that was stopped goes on with the step it was in.
    """
    from evaluation.adaptation import Adaptation, AdaptationPlan

    state = state_of(context)
    reviewed = source is not None
    if export is not None:
        if not reviewed:
            raise InputError("--export writes what was reviewed: add --from review.")
        export_reviewed(state, state.settings(), collection, export, used=source == "use")
        return
    need_extra("train,eval", "Adapting a rewriter", "torch", "transformers", "onnx", "ir_measures")
    if not (paths or reviewed):
        raise InputError("Say which documents to adapt to, or take --from review.")
    wanted = collection if reviewed and not paths else collection or name
    settings = state.settings(overriding(collection=wanted, llm__model=model))
    plan = AdaptationPlan(
        name,
        tuple(existing(paths or ())),
        recipe,
        existing([dialogs])[0] if dialogs else None,
        tuple(existing(also or ())),
        questions,
        settings.collection if reviewed else collection,
        reviewed,
    )
    tools = _Tools(state, settings, plan.documents, cpu, used=source == "use")
    with track_progress(settings.home / "adapt" / name):
        result = Adaptation(settings.home, plan, tools).run(promoting=promote)
    if result is None:
        return
    show(state, result)
    if not promote:
        state.err.print(f"Not promoted, as asked. `anaphora models promote {name}` does it by hand.")


def show(state: State, result: AdaptationResult) -> None:
    """The table of changes, and what follows from them."""
    numeric = ("n", "before", "after", "p")
    table = open_table("questions", "level", "measure", *numeric, right=numeric)
    for change in result.changes:
        numbers = (f"{change.n:,}", f"{change.before:.3f}", f"{change.after:.3f}", f"{change.p:.3f}")
        table.add_row(Text(change.set), change.level, change.measure, *numbers)
    state.out.print(table)
    p50 = {when: times[0] for when, times in result.milliseconds.items()}
    state.out.print(
        f"before: {result.before} ({p50['before']} ms a turn), after: {result.after} ({p50['after']} ms a turn). "
        f"{result.reason}",
    )


def export_reviewed(state: State, settings: Settings, collection: str, out: Path, *, used: bool = False) -> None:
    """Write the conversations with reviewed turns (of a collection, if one is named) into a file, one a line.

    With `used` turns that only their use speaks for are among them. Raises InputError where there is nothing.
    """
    dialogs = _reviewed(settings, collection, used)
    if not dialogs:
        more = ", rated up, opened or searched anew" if used else " on the workbench"
        raise InputError(f"Nothing was corrected or approved{more} yet; nothing was written.")
    write_text(out, "".join(dialog.line() for dialog in dialogs))
    turns = sum(message.reviewed for dialog in dialogs for message in dialog.turns)
    some = "conversation" if len(dialogs) == 1 else "conversations"
    kinds = "reviewed or used" if used else "reviewed"
    state.err.print(f"Wrote {out}: {turns} {kinds} turns of {len(dialogs)} {some}.", markup=False)


def _reviewed(settings: Settings, collection: str, used: bool) -> list[ReviewedDialog]:
    from server.access import LOCAL
    from server.store import reviewed

    with open_database(settings) as database:
        database.write_blocking(lambda connection: audit(connection, "review.export", collection=collection))
        return database.read_blocking(partial(reviewed.dialogs, used=used), LOCAL, collection)


class _Tools:
    """This installation's models and consoles, as an adaptation takes them."""

    def __init__(self, state: State, settings: Settings, paths: tuple[Path, ...], cpu: bool, *, used: bool) -> None:
        self._state = state
        self._settings = settings
        self._paths = paths
        self._cpu = cpu
        self._used = used

    @cached_property
    def _models(self) -> Models:
        from server.chat.loaded_models import Models

        fetch_models(self._settings, self._state)
        return Models(self._settings)

    @property
    def writes_dialogs(self) -> bool:
        from server.engines import NoEngine, open_engine

        return not isinstance(open_engine(self._settings), NoEngine)

    def index(self) -> tuple[int, int]:
        from index.collection import list_collections

        if self._paths:
            index_files(self._state, self._settings, self._models.encoder(), self._paths)
        infos = list_collections(self._settings.home / "collections")
        counts = [(info.documents, info.passages) for info in infos if info.name == self._settings.collection]
        if not counts:
            raise InputError(f"There is no collection {self._settings.collection!r}; name one with --collection.")
        return counts[0]

    def write_dialogs(self, folder: Folder) -> None:
        have_written(self._state, self._settings, self._paths, self._models.encoder(), folder)

    def write_reviewed(self, path: Path) -> None:
        dialogs = _reviewed(self._settings, self._settings.collection, self._used)
        write_text(path, "".join(dialog.line() for dialog in dialogs))

    def train(self, recipe: str, data: Path, part: str, run: Path) -> None:
        from rewriter.recipe import read_adapting
        from rewriter.training import train

        chosen = with_fetched_base(self._state, read_adapting(recipe, part))
        machine = machine_of(self._state, self._cpu, 0)
        train(chosen, data, run, machine=machine, callback=self.say)

    def serving(self) -> Rewriter:
        from server.rewriters import open_rewriter

        return open_rewriter(self._settings)

    @contextmanager
    def searching(self, rewriter: Rewriter) -> Iterator[TurnSearch]:
        from server.turn.search import TurnSearch

        with open_collection(self._settings, self._models) as searched:
            yield TurnSearch(
                collection=lambda _: searched,
                rewriter=rewriter,
                settings=self._settings,
                reranker=self._models.reranker(),
            )

    def counting(self, doing: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        return progress(self._state.err, doing, total)

    def say(self, text: str) -> None:
        self._state.err.print(f"{self._settings.collection}: {text}")
