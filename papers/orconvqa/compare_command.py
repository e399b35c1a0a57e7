"""Compare propositions with sentences as the units of search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.shared.state import InputError, state_of
from cli.synth import open_encoder

if TYPE_CHECKING:
    from index.documents import Document


def compare(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", show_default=False)],
    side: Annotated[list[str] | None, typer.Option(help="Only dialogs of train, dev or test; repeatable.")] = None,
) -> None:
    """Search propositions and sentences with the run's questions: typed with history, typed, and in full."""
    import tempfile

    from papers.orconvqa.pools import compare as compare_pools
    from papers.orconvqa.pools import table
    from synth import read_dialogs, read_propositions
    from synth.folder import SIDES, Folder
    from text.files import write_text

    state = state_of(context)
    folder = Folder(out.expanduser().absolute())
    documents = read_documents(folder.documents)
    paths = [folder.dialogs(one) for one in side or SIDES]
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


def read_documents(path: Path) -> list[Document]:
    """The documents of a run. Raises BadStore where the file is not there or not ours."""
    from index.documents import Document, Section
    from synth.tasks import BadStore

    if not path.is_file():
        raise BadStore(
            f"{path.parent} holds no run of `anaphora synth` (there is no {path.name}); name its --out folder."
        )
    documents: list[Document] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
                sections = tuple(
                    Section(tuple(part["heading"]), part["start"], part["end"], part["page"])
                    for part in row["sections"]
                )
                documents.append(Document(row["_id"], row["title"], row["text"], sections, row["metadata"]))
            except (ValueError, KeyError, TypeError) as error:
                raise BadStore(
                    f"{path}, line {number} is no document ({error!r}); run `anaphora synth` again."
                ) from error
    return documents
