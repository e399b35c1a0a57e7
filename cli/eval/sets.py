"""`anaphora eval sets`: which data sets there are."""

from __future__ import annotations

import typer

from cli.shared.options import Data
from cli.shared.state import state_of


def sets(context: typer.Context, data: Data = None) -> None:
    """List the data sets, and which of them are in the folder of --data."""
    from evaluation import sets as adapters
    from evaluation.errors import EvaluationError

    state = state_of(context)
    for name in adapters.NAMES:
        line = name
        if data is not None and ":" not in name:
            try:
                found = adapters.load_set(name, data)
                levels = ", ".join(level.name for level in found.levels)
                line += f": {len(found.questions)} questions, {len(found.judged)} judged by {levels}"
            except EvaluationError as error:
                line += f": {error}"
        state.out.print(line, soft_wrap=True)
