"""`anaphora audit`: reading the audit log, exporting it, checking that nobody changed it, cutting off its beginning."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.shared.resources import open_database
from cli.shared.state import InputError, state_of
from text.sanitize import sanitize_line

if TYPE_CHECKING:
    from server.store import Database
    from server.store.records import AuditRecord

app = typer.Typer(help="Read, export and check the log of who did what.", no_args_is_help=True)

_PAGE = 5_000
_CUT_AT_ONCE = 5_000
_FORMULA = ("=", "+", "-", "@")
_DAY = 86_400.0


Since = Annotated[
    datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Only rows from then on, UTC.")
]
By = Annotated[str, typer.Option("--principal", help="Only what this principal did, such as key:1a2b3c4d.")]


@app.command("list")
def show(
    context: typer.Context,
    since: Since = None,
    principal: By = "",
    action: Annotated[str, typer.Option(help="Only this action, such as key.create.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many rows, the newest.")] = 50,
) -> None:
    """The newest rows, the oldest of them first."""
    from rich.text import Text

    from cli.shared.console import open_table
    from server.store import audit

    with open_database(state_of(context).settings()) as database:
        rows = database.read_blocking(
            audit.listing, since=_seconds(since), principal=principal, action=action, limit=limit, newest=True
        )
    table = open_table("n", "when (UTC)", "who", "what", "about", "collection", "from", "outcome", right=("n",))
    for row in reversed(rows):
        when = datetime.fromtimestamp(row.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        texts = (row.principal, row.action, row.about, row.collection, row.origin, row.outcome)
        table.add_row(str(row.n), when, *(Text(sanitize_line(text)) for text in texts))
    state_of(context).out.print(table)


@app.command()
def export(
    context: typer.Context,
    since: Since = None,
    principal: By = "",
    style: Annotated[Literal["jsonl", "csv"], typer.Option("--format", help="JSON lines, or CSV.")] = "jsonl",
    out: Annotated[Path | None, typer.Option(help="The file to write; standard output without.")] = None,
) -> None:
    """Write rows out, oldest first, with their hashes. The log notes that it was exported."""
    from server.audit_log import at_terminal, entry
    from server.store import audit
    from text.files import text_writer

    detail = {"since": since.isoformat() if since else "", "principal": principal, "format": style}
    with open_database(state_of(context).settings()) as database:
        record = entry(at_terminal(), "log.export", detail=detail)
        database.write_blocking(audit.append, record)
        lines = _lines(_rows(database, _seconds(since), principal), style)
        if out is None:
            for line in lines:
                typer.echo(line, nl=False)
            return
        with text_writer(out) as file:
            file.writelines(lines)
    state_of(context).err.print(f"Wrote {out}.", markup=False)


@app.command()
def verify(
    context: typer.Context,
    head: Annotated[
        str, typer.Option(help="A head N:HASH that was noted earlier; the log must still hold that row.")
    ] = "",
) -> None:
    """Check that no row was changed, removed or slipped in, and print the head to note elsewhere."""
    from server.store import StoreError, audit

    with open_database(state_of(context).settings()) as database:
        report = database.read_blocking(audit.verify)
        n, _, chain = head.partition(":")
        if head and not (n.isdecimal() and chain):
            raise InputError("A head is written N:HASH, as this command prints it.")
        expected_chain = database.read_blocking(audit.chain_at, int(n)) if head else chain
    if report.problem or expected_chain != chain:
        problem = report.problem or f"Row {n} is not the one that was noted."
        raise StoreError(f"The audit log was tampered with, or its file is damaged. {problem}")
    state_of(context).err.print(f"{report.rows} rows, each as it was written. Head:")
    typer.echo(f"{report.n}:{report.chain}")


@app.command()
def trim(
    context: typer.Context,
    days: Annotated[int, typer.Option(min=1, help="Keep rows of so many days.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete old rows, and note it. A server does this by itself where `audit.days` says so."""
    from server.audit_log import at_terminal
    from server.store import audit

    if not yes:
        typer.confirm(f"Delete every row that is older than {days} days?", abort=True)
    before, who, gone = time.time() - days * _DAY, at_terminal(), 0
    with open_database(state_of(context).settings()) as database:
        while cut := database.write_blocking(audit.trim, before, _CUT_AT_ONCE, who.id, who.origin):
            gone += cut
    state_of(context).err.print(f"Deleted {gone} rows.")


def _rows(database: Database, since: float, principal: str) -> Iterator[AuditRecord]:
    from server.store import audit

    after = 0
    while rows := database.read_blocking(
        lambda connection, after=after: audit.listing(  # type: ignore[misc]
            connection, since=since, principal=principal, after=after, limit=_PAGE
        )
    ):
        yield from rows
        after = rows[-1].n


def _lines(rows: Iterator[AuditRecord], style: str) -> Iterator[str]:
    if style == "jsonl":
        yield from (f"{json.dumps(row.model_dump())}\n" for row in rows)
        return
    from server.store.records import AuditRecord

    yield _csv(AuditRecord.model_fields)
    yield from (_csv(row.model_dump().values()) for row in rows)


def _csv(values: Iterable[object]) -> str:
    """One line, in which no text is what a spreadsheet would calculate."""
    cells = [json.dumps(value) if isinstance(value, dict) else sanitize_line(str(value)) for value in values]
    line = io.StringIO()
    csv.writer(line).writerow(f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells)
    return line.getvalue()


def _seconds(since: datetime | None) -> float:
    return since.replace(tzinfo=UTC).timestamp() if since else 0.0
