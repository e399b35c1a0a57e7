"""Which cross-encoder reads: the settings' choice, the promoted run, or the packaged one that reads conversations.

Runs of `anaphora train reranker` and their promotion are `rewriter.runs`'s, opening one is `index.rerank`'s.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from index.errors import ModelUnavailable
from rewriter.errors import RunError
from rewriter.load import RERANKERS, describe, verify
from rewriter.runs import promoted_folder
from server.settings import Settings

if TYPE_CHECKING:
    from index.rerank import Reranker

DEFAULT = "ms-marco-minilm-l12"
"""What the packaged one was trained from, and takes its lower half from."""


def chosen_reranker(settings: Settings) -> str:
    """What must be at hand: a registered name, a hub id or a folder.

    Raises ModelUnavailable where it is not known which run is promoted.
    """
    named = settings.retrieval.reranker
    if named:
        run = settings.home / RERANKERS.folder / named
        return str(run) if run.is_dir() else named
    try:
        promoted = promoted_folder(settings.home, RERANKERS)
    except RunError as error:
        raise ModelUnavailable(str(error)) from error
    return str(promoted) if promoted is not None else DEFAULT


def open_reranker(settings: Settings) -> Reranker:
    """The cross-encoder of the settings. Blocks; raises ModelUnavailable, and RegistryError where it is not fetched."""
    from index.rerank import load_over, load_reranker
    from server.registry import resolve

    chosen = chosen_reranker(settings)
    path = resolve(chosen, settings.home)
    if chosen == DEFAULT and not settings.retrieval.reranker:
        return load_over(Path(str(files("rewriter") / "default_reranker")), Path(path))
    return load_reranker(path)


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
