"""`anaphora erase`: a person or a document out of everything, and a look at every file for what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.error_handler import ExitCode
from cli.shared.options import overriding
from cli.shared.state import InputError, State, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from index.encoders import Encoder
    from server.erasure import ErasureReport, Remnant
    from server.settings import Settings
    from server.store import Database

app = typer.Typer(help="Erase a person or a document, and prove it.", no_args_is_help=True)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_SHOWN = 60


@app.command()
def document(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(help="The document's id, as the page and the API show it.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Its collection.")] = "",
    yes: Yes = False,
) -> None:
    """Erase a document from index, vectors, quoted evidence, answers made from it, and traces."""
    from server.erasure import erase_document

    state = state_of(context)
    settings = state.settings(overriding(collection=collection))
    if not yes:
        typer.confirm(f"Erase {document_id} of {settings.collection}? It cannot be had back", abort=True)
    with _opened(settings, state) as (database, encoder):
        _tell(state, settings, erase_document(settings, database, encoder, settings.collection, document_id))


@app.command()
def person(
    context: typer.Context,
    principal: Annotated[str, typer.Argument(help="Who: key:ID, oidc:…, proxy:… or local, as the audit log names it.")],
    keep_uploads: Annotated[bool, typer.Option("--keep-uploads", help="Leave what the person uploaded.")] = False,
    yes: Yes = False,
) -> None:
    """Erase a person's conversations, traces, ratings, sessions, key and uploads."""
    from server.erasure import erase_person

    state = state_of(context)
    settings = state.settings()
    if ":" not in principal and principal != "local":
        raise InputError(
            f"{principal[:80]!r} is no principal: they look like key:1a2b3c4d; `anaphora audit list` shows them."
        )
    if not yes:
        typer.confirm(f"Erase everything of {principal}? It cannot be had back", abort=True)
    with _opened(settings, state) as (database, encoder):
        _tell(state, settings, erase_person(settings, database, encoder, principal, keep_uploads=keep_uploads))


@app.command()
def find(
    context: typer.Context,
    texts: Annotated[list[str], typer.Argument(help="Texts to look for, in every file of the home.")],
) -> None:
    """Look for texts in every file of the home; exit code 1 where one is found."""
    from server.erasure import remnants

    state = state_of(context)
    wanted = [text for text in texts if text.strip()]
    if not wanted:
        raise InputError("Say what to look for; an empty text stands everywhere.")
    home = state.settings().home
    left = remnants(home, wanted)
    _list(state, home, left)
    if left:
        raise typer.Exit(ExitCode.UNEXPECTED)
    state.err.print(f"None of them stands in any file of {home}.", markup=False)


@contextmanager
def _opened(settings: Settings, state: State) -> Iterator[tuple[Database, Encoder]]:
    from cli.shared.resources import fetch_models, open_database
    from server.chat.loaded_models import Models

    fetch_models(settings, state, reranker=False)
    with open_database(settings) as database:
        yield database, Models(settings).encoder()


def _tell(state: State, settings: Settings, report: ErasureReport) -> None:
    done = report.erased
    state.err.print(
        f"Erased: {len(report.documents)} documents, {done.conversations} conversations, {done.turns} turns, "
        f"{done.feedback} ratings or comments.",
        markup=False,
    )
    for line in report.advice:
        state.err.print(line, markup=False)
    _list(state, settings.home, report.remnants)
    if report.remnants:
        state.err.print("Delete these files, or what made them, and look again with `anaphora erase find`.")
        raise typer.Exit(ExitCode.UNEXPECTED)
    state.err.print(
        f"Looked for {report.searched} of its sentences in every file of {settings.home}: none is left. Backups, and "
        "servers that ran meanwhile, are not in it: restart these.",
        markup=False,
    )


def _list(state: State, home: Path, remnants: Sequence[Remnant]) -> None:
    from text.sanitize import sanitize_line

    for remnant in remnants:
        line = sanitize_line(remnant.text)
        excerpt = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
        state.out.print(f"{remnant.path.relative_to(home)}: {excerpt}", markup=False, highlight=False)
