"""The models a service needs, loaded once and only when something asks for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from server.settings import Settings

if TYPE_CHECKING:
    from index.encoders import Encoder
    from index.rerank import Reranker


class Models:
    """The encoder and the cross-encoder. Loading blocks; both may be asked for from any thread.

    Raises `index.errors.ModelUnavailable` or `server.registry.RegistryError`, and tries again next time.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._encoder_lock = threading.Lock()
        self._reranker_lock = threading.Lock()
        self._encoder: Encoder | None = None
        self._reranker: Reranker | None = None

    def encoder(self) -> Encoder:
        """The embedding model of the settings."""
        with self._encoder_lock:
            if self._encoder is None:
                from index.encoders import load_encoder
                from server.registry import resolve

                self._encoder = load_encoder(resolve(self._settings.index.encoder, self._settings.home))
            return self._encoder

    @property
    def reranker_at_hand(self) -> bool:
        """Whether `reranker` would return at once."""
        return self._reranker is not None or self._settings.retrieval.rerank == "never"

    def reranker(self) -> Reranker | None:
        """The cross-encoder, None where the settings want none."""
        if self._settings.retrieval.rerank == "never":
            return None
        with self._reranker_lock:
            if self._reranker is None:
                from index.rerank import load_reranker
                from server.registry import resolve

                self._reranker = load_reranker(resolve(self._settings.retrieval.reranker, self._settings.home))
            return self._reranker
