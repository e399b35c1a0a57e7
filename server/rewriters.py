"""Which rewriter a turn has: the settings' choice, the promoted run, the packaged default, or none.

The chat service and the commands open it here. Rewriters themselves are the `rewriter` room's; training runs
and their promotion are written by `anaphora train` and `anaphora models`.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from index.errors import ModelUnavailable
from rewriter.load import REWRITERS, Serving, load_rewriter, packaged_folder
from rewriter.protocol import PassThroughRewriter, Rewriter, RunError
from rewriter.runs import PROMOTED, promoted_folder
from rewriter.served import ANSWER_CHARS, MESSAGES, Patience, ServedRewriter
from server.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from index.rerank import Reranker
    from server.turn.support import PairModel


log = logging.getLogger(__name__)

DEFAULT = "ms-marco-minilm-l12"
"""What the packaged one was trained from, and takes its lower half from."""


def open_reranker(settings: Settings) -> Reranker:
    """The cross-encoder of the settings. Blocks; raises ModelUnavailable, and RegistryError where it is not fetched.

    Beside one of your own, the packaged one reads for what is quoted, if it is there.
    """
    from index.rerank import CrossEncoderReranker, load_reranker
    from server.registry import RegistryError, resolve

    if not settings.retrieval.reranker:
        return _packaged_reranker(settings)
    reranker = load_reranker(resolve(settings.retrieval.reranker, settings.home))
    if isinstance(reranker, CrossEncoderReranker) and reranker.reader is None:
        try:
            reranker.beside = _packaged_reranker(settings)
        except (ModelUnavailable, RegistryError) as error:
            log.info("Sentences are chosen by their words: %s", error)
    return reranker


def _packaged_reranker(settings: Settings) -> Reranker:
    from index.rerank import load_over
    from server.registry import resolve

    return load_over(Path(str(files("rewriter") / "default_reranker")), Path(resolve(DEFAULT, settings.home)))


def open_pairs(settings: Settings) -> PairModel | None:
    """The packaged model that reads statements beside evidence. Blocks.

    None where an installation has none, or the cross-encoder that it shares weights with is missing or another one:
    answers are then checked by their words alone, which the log tells.
    """
    from server.registry import RegistryError, resolve
    from server.turn.support import DESCRIPTION, PairModel

    folder = Path(str(files("rewriter") / "default_support"))
    if not (folder / DESCRIPTION).is_file():
        return None
    try:
        return PairModel(folder, Path(resolve(DEFAULT, settings.home)))
    except (ModelUnavailable, RegistryError) as error:
        log.warning("answers are checked by their words alone: %s", error)
        return None


def chosen_folder(settings: Settings) -> Path | None:
    """The folder of the rewriter that `rewriter.kind = "auto"` means now; None where there is none.

    Raises RunError where the settings name a run that is not there.
    """
    named = settings.rewriter.model
    if named:
        for folder in (Path(named), settings.home / REWRITERS.folder / named):
            if folder.is_dir():
                return folder
        raise RunError(f"rewriter.model is {named!r}, but there is neither such a folder nor such a run")
    return promoted_folder(settings.home) or packaged_folder()


def open_rewriter(settings: Settings, chat_model: BaseChatModel | None = None) -> Rewriter:
    """The rewriter of the settings. The prompted one needs `chat_model`; without it, query variants alone search.

    Beside a trained one, `chat_model` is a served model that writes in full what leans on its conversation.
    Raises RunError where the folder that is wanted is missing, unfinished or damaged.
    """
    if settings.rewriter.kind == "prompted" and chat_model is not None:
        from rewriter.prompted import PromptedRewriter

        profile = settings.retrieval.profile
        return PromptedRewriter(_rewriting(settings, chat_model), profile.rewrite_seconds, profile.history_messages)
    folder = chosen_folder(settings) if settings.rewriter.kind == "auto" else None
    if folder is None:
        return PassThroughRewriter()
    return with_served(_trained(folder, settings), settings, chat_model)


def with_served(
    trained: Rewriter, settings: Settings, chat_model: BaseChatModel | None, patience: Patience | None = None
) -> Rewriter:
    """Return `trained` with the served `chat_model` beside it; alone without one, or if it gets no time."""
    seconds = settings.retrieval.profile.sentence_seconds
    if chat_model is None or not seconds:
        return trained
    from rewriter.prompted import PromptedRewriter

    writer = PromptedRewriter(_rewriting(settings, chat_model), seconds, MESSAGES, ANSWER_CHARS)
    return ServedRewriter(trained, writer, patience)


def _rewriting(settings: Settings, chat_model: BaseChatModel) -> BaseChatModel:
    """Return the model that rewrites: the one that answers, or what `rewriter.model_name` names at its address."""
    named = settings.rewriter.model_name
    return chat_model.model_copy(update={"model_name": named}) if named and settings.llm.remote else chat_model


class RewriterManager:
    """The rewriter of a running service: opened when first asked for, and again when another is promoted.

    One that cannot be opened leaves the one before it at work, else none, and `problem` says why. Safe to call
    from several threads; `rewriter` blocks while a model loads.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._state: tuple[str, int] | None = None
        self._rewriter: Rewriter = PassThroughRewriter()
        self._patience = Patience()
        self.problem = ""

    @property
    def is_loaded(self) -> bool:
        """Whether `rewriter` would return at once."""
        return self._settings.rewriter.kind != "auto" or self._state == self._wanted()

    def rewriter(self, chat_model: BaseChatModel | None = None) -> Rewriter:
        """The rewriter a turn has now; beside a trained one, `chat_model` is a served model that is fast."""
        if self._settings.rewriter.kind != "auto":
            return open_rewriter(self._settings, chat_model)
        wanted = self._wanted()
        if wanted != self._state:
            with self._lock:
                if wanted != self._state:
                    self._open()
                    self._state = wanted
        return with_served(self._rewriter, self._settings, chat_model, self._patience)

    def _open(self) -> None:
        try:
            self._rewriter, self.problem = open_rewriter(self._settings), ""
        except RunError as error:
            with suppress(RunError):
                if self._state is None:
                    self._rewriter = _trained(packaged_folder(), self._settings)
            self.problem = f"{error} Until then rewriter {self._rewriter.name!r} serves."
            log.warning("%s", self.problem)

    def _wanted(self) -> tuple[str, int]:
        """Changes whenever another run is promoted."""
        note = self._settings.home / REWRITERS.folder / PROMOTED
        return self._settings.rewriter.model, note.stat().st_mtime_ns if note.exists() else 0


def _trained(folder: Path | None, settings: Settings) -> Rewriter:
    """The rewriter in a folder, or none without one. Raises RunError."""
    if folder is None:
        return PassThroughRewriter()
    profile = settings.retrieval.profile
    return load_rewriter(
        folder,
        Serving(
            timeout_seconds=profile.rewrite_seconds,
            history_messages=profile.history_messages,
            threshold=profile.rewrite_threshold,
        ),
    )
