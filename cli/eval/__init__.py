"""`anaphora eval`: measuring retrieval, rewriting, answers and dialogs; comparing runs, and showing them.

Each command has its module; `help` lists them in the order given here.
"""

from __future__ import annotations

import typer

from cli.eval.commands import answerability, answers, candidates, compare, report, retrieval, sets

app = typer.Typer(help="Measure retrieval, rewriting, answers and dialogs, and compare runs.", no_args_is_help=True)

MEASURING = (retrieval, answers, answerability)
ABOUT_SETS_AND_RUNS = (candidates, sets, compare, report)
for command in (*MEASURING, *ABOUT_SETS_AND_RUNS):
    app.command()(command)
