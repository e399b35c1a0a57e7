"""Compare propositions with sentences as the units of search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.shared.state import InputError, state_of
from cli.synth import Side, open_encoder


def compare(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
    side: Annotated[list[Side] | None, typer.Option(help="Only dialogs of this side; repeatable.")] = None,
) -> None:
    """Search propositions and sentences with the run's questions: typed with history, typed, and in full."""
    import tempfile

    from papers.orconvqa.pools import compare as compare_pools
    from papers.orconvqa.pools import table
    from synth import read_dialogs, read_propositions
    from synth.folder import Folder, read_documents
    from text.files import write_text

    state = state_of(context)
    folder = Folder(out.expanduser().absolute())
    documents = read_documents(folder.documents)
    paths = [folder.dialogs(one.value) for one in side or Side]
    dialogs = [dialog for path in paths if path.is_file() for dialog in read_dialogs(path)]
    if not any(dialog.questions() for dialog in dialogs):
        raise InputError(f"{folder.path} holds no questions; run `anaphora synth` until its dialogs are written.")
    propositions = list(read_propositions(folder.propositions))
    encoder = open_encoder(state.settings(), state)
    with tempfile.TemporaryDirectory() as workplace, state.err.status("comparing") as status:
        cells = compare_pools(documents, propositions, dialogs, encoder, Path(workplace), status.update)
    text = table(cells)
    write_text(folder.path / "compare.md", text)
    state.out.print(f"{cells[0].questions:,} questions, {len(documents):,} documents")
    state.out.print(text)
