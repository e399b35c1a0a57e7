"""`anaphora doctor`: what is found wrong with the installation, each problem with its remedy."""

from __future__ import annotations

import typer

from cli.shared.error_handler import ExitCode, describe
from cli.shared.state import state_of


def doctor(context: typer.Context) -> None:
    """Check the installation and say what to do about each problem."""
    from rich.text import Text

    from server.installation import check_installation

    state = state_of(context)
    settings = state.settings()
    looks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
    failed = False
    for finding in check_installation(settings, describe):
        failed = failed or finding.level == "fail"
        sign, style = looks[finding.level]
        shown = Text(f"{sign} ", style=style)
        shown.append(f"{finding.what}: ", style="bold").append(finding.message)
        if finding.remedy:
            shown.append(f"\n  → {finding.remedy}", style=style)
        state.out.print(shown)
    if failed:
        raise typer.Exit(ExitCode.UNEXPECTED)
