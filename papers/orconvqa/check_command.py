"""`anaphora eval check`: what is wrong with a file of dialogs that quote their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from cli.shared.options import Searched, overriding
from cli.shared.state import InputError, state_of


def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Dialogs, one JSON object a line (see docs/lab/evaluation.md).")],
    docs: Annotated[Path | None, typer.Option(help="Folder of the pages that are quoted.")] = None,
    collection: Searched = "",
) -> None:
    """Say line by line what is wrong with dialogs that quote their evidence; the exit code is 3 where something is.

    Quotes are looked for in the pages of --docs, else in an indexed collection.
    """
    from evaluation.questions import document_id, present
    from papers.orconvqa.checking import check as checked
    from papers.orconvqa.checking import folder_texts

    state = state_of(context)
    present(file, "A file of dialogs", "docs/lab/evaluation.md describes its lines.")
    with ExitStack() as stack:
        if docs is not None:
            if not docs.is_dir():
                raise InputError(f"There is no folder {docs}; --docs names the one with the pages.")
            texts = folder_texts(docs)
        else:
            from cli.shared.resources import fetch_models, open_collection
            from server.chat.loaded_models import Models

            settings = state.settings(overriding(collection=collection))
            fetch_models(settings, state, reranker=False)
            opened = stack.enter_context(open_collection(settings, Models(settings)))
            known = {one.id for one in opened.documents()}

            def texts(document: str) -> Sequence[str]:
                name = document_id(document, known)
                return (opened.document(name).text,) if name else ()

        errors = warnings = 0
        for remark in checked(file, texts):
            errors += remark.certainty == "error"
            warnings += remark.certainty == "warning"
            state.out.print(str(remark), soft_wrap=True)
    if errors:
        raise InputError(f"{file}: {errors} errors, {warnings} warnings.")
    state.err.print(f"{file}: no error, {warnings} warnings.")
