"""`anaphora eval`: measuring retrieval, rewriting, answers and dialogs; comparing runs, and showing them.

Each command has its module; `help` lists them in the order given here.
"""

from __future__ import annotations

import typer

from cli.eval.answerability import answerability
from cli.eval.answers import answers
from cli.eval.candidates import candidates
from cli.eval.check import check
from cli.eval.dialogs import dialogs
from cli.eval.pdf import pdf
from cli.eval.qasper import qasper
from cli.eval.recipes import recipes
from cli.eval.retrieval import retrieval
from cli.eval.rewriting import rewriting
from cli.eval.runs import compare, report
from cli.eval.sets import sets
from cli.eval.standalone import standalone
from cli.eval.why import why

app = typer.Typer(help="Measure retrieval, rewriting, answers and dialogs, and compare runs.", no_args_is_help=True)

MEASURING = (retrieval, rewriting, answers, answerability, dialogs, standalone, why, pdf, qasper, recipes)
ABOUT_SETS_AND_RUNS = (candidates, check, sets, compare, report)
for command in (*MEASURING, *ABOUT_SETS_AND_RUNS):
    app.command()(command)
