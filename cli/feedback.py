"""`anaphora feedback`: edited search texts and ratings as a file to review, a reviewed file as training rows, and what
was reviewed on the workbench.

Nothing goes from the chat into training by itself: a person sets `use` on every row that may, or reviews the turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.resources import open_database
from cli.shared.state import InputError, state_of

app = typer.Typer(help="Turn edited rewrites and ratings into reviewed training rows.", no_args_is_help=True)


@app.command("export")
def export_rows(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write, one JSON object a line.", show_default=False)],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only turns of this collection.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write edited and rated turns for review. Set `use` to true where a row may be trained on, and mend `rewrite`."""
    from server.access.audit import at_terminal, entry
    from server.store import audit, review
    from text.files import text_writer

    state = state_of(context)
    if out.exists() and not overwrite:
        raise InputError(f"{out} is there already, perhaps with somebody's review; name another file or --overwrite.")
    with open_database(state.settings()) as database:
        made = entry(at_terminal(), "feedback.export", collection=collection)
        database.write_blocking(audit.append, made)
        rows = database.read_blocking(review.gather, collection)
    with text_writer(out) as file:
        file.writelines(row.model_dump_json() + "\n" for row in rows)
    edited = sum(row.by == "person" for row in rows)
    state.err.print(
        f"Wrote {out}: {edited} edited search texts, {len(rows) - edited} rated turns. Review it, then run "
        f"`anaphora feedback rows {out} ROWS.jsonl`.",
    )


@app.command()
def rows(
    context: typer.Context,
    reviewed: Annotated[Path, typer.Argument(help="A reviewed file of `feedback export`.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Training rows to write, as recipes take them.", show_default=False)],
) -> None:
    """Write the rows that a review wants used as training rows."""
    from rewriter.examples import write_examples
    from server.store.review import as_examples

    state = state_of(context)
    with reviewed.open(encoding="utf-8") as lines:
        examples = list(as_examples(lines, reviewed.name))
    if not examples:
        raise InputError(f"No row of {reviewed} has `use` set to true; nothing was written.")
    count = write_examples(out, examples)
    changed = sum(example.needs_rewrite for example in examples)
    state.err.print(f"Wrote {out}: {count} rows, {changed} of them rewritten.")


@app.command()
def reviewed(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write, one conversation a line.", show_default=False)],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Only turns of this collection.")] = "",
) -> None:
    """Write what was reviewed on the workbench: pairs for `train`, and a set of questions for `eval`."""
    from server.access import LOCAL
    from server.access.audit import at_terminal, entry
    from server.store import audit
    from server.store import reviewed as store
    from text.files import text_writer

    state = state_of(context)
    with open_database(state.settings()) as database:
        made = entry(at_terminal(), "review.export", collection=collection)
        database.write_blocking(audit.append, made)
        dialogs = database.read_blocking(store.dialogs, LOCAL, collection)
    if not dialogs:
        raise InputError("Nothing was corrected or approved on the workbench yet; nothing was written.")
    with text_writer(out) as file:
        file.writelines(dialog.line() for dialog in dialogs)
    turns = sum(one.reviewed for dialog in dialogs for one in dialog.turns)
    some = "conversation" if len(dialogs) == 1 else "conversations"
    state.err.print(f"Wrote {out}: {turns} reviewed turns of {len(dialogs)} {some}.")
