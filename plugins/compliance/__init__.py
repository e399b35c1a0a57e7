"""Compliance: an audit log of who did what, and the erasure of documents and persons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field
from rich.text import Text

from cli.shared.console import open_table
from cli.shared.error_handler import ExitCode
from cli.shared.options import overriding
from cli.shared.resources import fetch_models, open_database
from cli.shared.state import InputError, State, state_of
from server.plugins import Plugin, SettingsGroup
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from plugins.compliance.erasing import Eraser, ErasureReport
    from server.settings import Settings


plugin = Plugin(
    name="compliance",
    summary="Keep an audit log, and erase documents and persons.",
    settings="plugins.compliance:ComplianceSettings",
    commands={"audit": "plugins.compliance:audit", "erase": "plugins.compliance:erase"},
    tables=("plugins.compliance.audit_log:TABLES",),
    audit_logs=("plugins.compliance.audit_log:append",),
    tasks=("plugins.compliance.audit_log:trim_expired",),
    checks=("plugins.compliance.audit_log:check_chain",),
)


class ComplianceSettings(SettingsGroup):
    """Configure the content and the retention of the audit log."""

    content: bool = Field(False, description="Record questions too; off keeps who, what, when and from where.")
    days: int = Field(0, ge=0, description="Days a row is kept; 0 keeps all.")

    @property
    def keeps_questions(self) -> bool:
        return self.content


audit = typer.Typer(help="Read and check the log of who did what.", no_args_is_help=True)
erase = typer.Typer(help="Erase a person or a document, and prove it.", no_args_is_help=True)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_SHOWN = 60
_LISTED = 50


@audit.command("list")
def show(
    context: typer.Context,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Only rows from then on, UTC.")
    ] = None,
    principal: Annotated[str, typer.Option(help="Only what this principal did, such as key:1a2b3c4d.")] = "",
    action: Annotated[str, typer.Option(help="Only this action, such as key.create.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many rows, the newest; default 50, with --json all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines with details and hashes; the log notes the export.")
    ] = False,
) -> None:
    """List the newest rows, the oldest of them first."""
    from plugins.compliance import audit_log
    from server.access import account, at_terminal, entry

    start = since.replace(tzinfo=UTC).timestamp() if since else 0.0
    with open_database(state_of(context).settings()) as database:
        if as_json:
            exported = entry(at_terminal(), "log.export", detail={"since": start, "principal": principal})
            database.write_blocking(account, exported)
        rows = database.read_blocking(
            audit_log.listing,
            since=start,
            principal=principal,
            action=action,
            limit=limit if limit or as_json else _LISTED,
            newest=True,
        )
    if as_json:
        for row in reversed(rows):
            typer.echo(row.model_dump_json())
        return
    table = open_table("n", "when (UTC)", "who", "what", "about", "collection", "from", "outcome", right=("n",))
    for row in reversed(rows):
        when = datetime.fromtimestamp(row.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        texts = (row.principal, row.action, row.about, row.collection, row.origin, row.outcome)
        table.add_row(str(row.n), when, *(Text(sanitize_line(text)) for text in texts))
    state_of(context).out.print(table)


@audit.command()
def verify(
    context: typer.Context,
    head: Annotated[
        str, typer.Option(help="A head N:HASH that was noted earlier; the log must still hold that row.")
    ] = "",
) -> None:
    """Check that no row was changed, removed or slipped in, and print the head to note elsewhere."""
    from plugins.compliance import audit_log
    from server.store import StoreError

    n, _, chain = head.partition(":")
    if head and not (n.isdecimal() and chain):
        raise InputError("A head is written N:HASH, as this command prints it.")
    with open_database(state_of(context).settings()) as database:
        report = database.read_blocking(audit_log.verify)
        noted_chain = database.read_blocking(audit_log.chain_at, int(n)) if head else chain
    if report.problem or noted_chain != chain:
        problem = report.problem or f"Row {n} is not the one that was noted."
        raise StoreError(f"The audit log was tampered with, or its file is damaged. {problem}")
    state_of(context).err.print(f"{report.rows} rows, each as it was written. Head:")
    typer.echo(f"{report.n}:{report.chain}")


@erase.command()
def document(
    context: typer.Context,
    document_id: Annotated[str, typer.Argument(help="The document's id, as the page and the API show it.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Its collection.")] = "",
    yes: Yes = False,
) -> None:
    """Erase a document from index, vectors, quoted evidence, answers made from it, and traces."""
    state = state_of(context)
    settings = state.settings(overriding(collection=collection))
    if not yes:
        typer.confirm(f"Erase {document_id} of {settings.collection}? It cannot be had back", abort=True)
    with _opened(settings, state) as eraser:
        report = eraser.erase_document(settings.collection, document_id)
    _print(state, settings, report)


@erase.command()
def person(
    context: typer.Context,
    principal: Annotated[str, typer.Argument(help="Who: key:ID, oidc:…, proxy:… or local, as the audit log names it.")],
    keep_uploads: Annotated[bool, typer.Option("--keep-uploads", help="Leave what the person uploaded.")] = False,
    yes: Yes = False,
) -> None:
    """Erase a person's conversations, traces, ratings, sessions, key and uploads."""
    state = state_of(context)
    settings = state.settings()
    if ":" not in principal and principal != "local":
        raise InputError(
            f"{principal[:80]!r} is no principal: they look like key:1a2b3c4d; `anaphora audit list` shows them."
        )
    if not yes:
        typer.confirm(f"Erase everything of {principal}? It cannot be had back", abort=True)
    with _opened(settings, state) as eraser:
        report = eraser.erase_person(principal, keep_uploads=keep_uploads)
    _print(state, settings, report)


@contextmanager
def _opened(settings: Settings, state: State) -> Iterator[Eraser]:
    from plugins.compliance.erasing import Eraser
    from server.chat.loaded_models import Models

    fetch_models(settings, state, reranker=False)
    with open_database(settings) as database:
        yield Eraser(settings, database, Models(settings).encoder())


def _print(state: State, settings: Settings, report: ErasureReport) -> None:
    for line in report.advice:
        state.err.print(line, markup=False)
    for path, text in report.remnants:
        excerpt = sanitize_line(text)
        excerpt = excerpt if len(excerpt) <= _SHOWN else excerpt[: _SHOWN - 1] + "…"
        state.out.print(f"{path.relative_to(settings.home)}: {excerpt}", markup=False, highlight=False)
    done = report.erased
    state.err.print(
        f"Erased: {len(report.documents)} documents, {done.conversations} conversations, {done.turns} turns, "
        f"{done.feedback} ratings or comments.",
        markup=False,
    )
    if report.remnants:
        state.err.print("Delete these files, or what made them, and look again: grep -rlaF 'WORDS' HOME.")
        raise typer.Exit(ExitCode.UNEXPECTED)
    state.err.print(
        f"Looked for {report.searched} of its sentences in every file of {settings.home}: none is left. Backups, and "
        "servers that ran meanwhile, are not in it: restart these.",
        markup=False,
    )
