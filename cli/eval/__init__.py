"""`anaphora eval`: measuring retrieval, rewriting, answers and dialogs; comparing runs, and showing them.

Each command has its module; `help` lists them in the order given here.
"""

from __future__ import annotations

import typer

from cli.eval.answerability import answerability
from cli.eval.answers import answers
from cli.eval.candidates import candidates
from cli.eval.retrieval import retrieval
from cli.eval.runs import compare, report
from cli.eval.sets import sets

app = typer.Typer(help="Measure retrieval, rewriting, answers and dialogs, and compare runs.", no_args_is_help=True)

MEASURING = (retrieval, answers, answerability)
ABOUT_SETS_AND_RUNS = (candidates, sets, compare, report)
for command in (*MEASURING, *ABOUT_SETS_AND_RUNS):
    app.command()(command)
