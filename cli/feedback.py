"""`anaphora feedback`: what was reviewed on the workbench, as a file to train on and to measure with.

Nothing goes from the chat into training by itself: a person reviews the turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.resources import open_database
from cli.shared.state import InputError, state_of

app = typer.Typer(help="Write what was reviewed on the workbench into a file.", no_args_is_help=True)


@app.command()
def reviewed(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write, one conversation a line.", show_default=False)],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only turns of this collection.")] = "",
) -> None:
    """Write what was reviewed on the workbench: pairs for `train`, and a set of questions for `eval`."""
    from server.access import LOCAL
    from server.audit_log import account, at_terminal, entry
    from server.store import reviewed as store
    from text.files import text_writer

    state = state_of(context)
    with open_database(state.settings()) as database:
        record = entry(at_terminal(), "review.export", collection=collection)
        database.write_blocking(account, record)
        dialogs = database.read_blocking(store.dialogs, LOCAL, collection)
    if not dialogs:
        raise InputError("Nothing was corrected or approved on the workbench yet; nothing was written.")
    with text_writer(out) as file:
        file.writelines(dialog.line() for dialog in dialogs)
    turns = sum(message.reviewed for dialog in dialogs for message in dialog.turns)
    some = "conversation" if len(dialogs) == 1 else "conversations"
    state.err.print(f"Wrote {out}: {turns} reviewed turns of {len(dialogs)} {some}.")
