"""Which cross-encoder reads: the settings' choice, the promoted run, or the default.

Runs of `anaphora train reranker` and their promotion are `rewriter.runs`'s, opening one is `index.rerank`'s.
"""

from __future__ import annotations

from pathlib import Path

from index.errors import ModelUnavailable
from rewriter.errors import RunError
from rewriter.load import RERANKERS, describe, verify
from rewriter.runs import promoted_folder
from server.settings import Settings

DEFAULT = "ms-marco-minilm-l12"


def chosen_reranker(settings: Settings) -> str:
    """A registered name, a hub id or a folder. Raises ModelUnavailable where it is not known which run is promoted."""
    named = settings.retrieval.reranker
    if named:
        run = settings.home / RERANKERS.folder / named
        return str(run) if run.is_dir() else named
    try:
        promoted = promoted_folder(settings.home, RERANKERS)
    except RunError as error:
        raise ModelUnavailable(str(error)) from error
    return str(promoted) if promoted is not None else DEFAULT


def check(folder: Path) -> None:
    """Load a run as the server would and have it read one passage. Raises RunError where that fails."""
    from index.query import Hit, Passage
    from index.rerank import load_reranker
    from text.asking import QuestionContext

    verify(folder, describe(folder, RERANKERS))
    text = "Licences are renewed online or by mail."
    try:
        [read] = load_reranker(str(folder)).rerank(
            "and by fax?",
            [Hit(Passage("p", "d", "", text, "section", 0, len(text)), 1.0)],
            seconds=60.0,
            context=QuestionContext("licence", "How do I renew my licence?", "Online or by mail."),
        )
    except ModelUnavailable as error:
        raise RunError(f"{folder.name} cannot be opened: {error}") from error
    if read.relevance is None:
        raise RunError(f"{folder.name} loads but reads nothing.")
