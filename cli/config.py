"""`anaphora config`: the settings in force, where each came from, and the reference written from the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cli.shared.console import open_table
from cli.shared.error_handler import ExitCode, describe
from cli.shared.state import state_of

app = typer.Typer(help="Show the settings in force and where each comes from.", invoke_without_command=True)


@app.callback()
def config(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
) -> None:
    """Show the settings in force and where each comes from; secrets are hidden."""
    if context.invoked_subcommand is not None:
        return
    from cli.shared.reference import effective

    state = state_of(context)
    rows = effective(state.settings(), state.settings_class(), state.flags())
    if as_json:
        typer.echo(json.dumps({row.setting.name: {"value": row.value, "source": row.source} for row in rows}, indent=2))
        return

    table = open_table("setting", "value", "from")
    for row in rows:
        style = "dim" if row.source == "default" else "bold"
        table.add_row(row.setting.name, Text(row.value, style=style), Text(row.source, style=style))
    state.out.print(table)


@app.command("docs")
def write_docs(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("docs/operate/configuration.md"),
) -> None:
    """Write the reference of every setting as Markdown, in place of the one in the file."""
    from cli.shared.reference import MARK, markdown
    from server.settings import Settings

    head = path.read_text("utf-8").partition(MARK)[0] if path.is_file() else ""
    path.write_text(head + markdown(Settings), encoding="utf-8")
    state_of(context).err.print(f"Wrote {path}.")


@app.command("openapi")
def write_openapi(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("docs/operate/openapi.json"),
) -> None:
    """Write the description of the HTTP API as OpenAPI."""
    path.write_text(openapi_text(), encoding="utf-8")
    state_of(context).err.print(f"Wrote {path}.")


def openapi_text() -> str:
    """The description of the HTTP API as it lies in the repository."""
    from server.api.app import description

    return json.dumps(description(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def doctor(context: typer.Context) -> None:
    """Check the installation and say what to do about each problem."""
    from server.installation import check_installation

    state = state_of(context)
    settings = state.settings()
    looks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
    failed = False
    for finding in check_installation(settings, describe):
        failed = failed or finding.level == "fail"
        sign, style = looks[finding.level]
        line = Text(f"{sign} ", style=style)
        line.append(f"{finding.what}: ", style="bold").append(finding.message)
        if finding.remedy:
            line.append(f"\n  → {finding.remedy}", style=style)
        state.out.print(line)
    if failed:
        raise typer.Exit(ExitCode.UNEXPECTED)
