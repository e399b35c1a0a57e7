"""The engine that is none: answers are sentences quoted from the documents."""

from __future__ import annotations

from collections.abc import Mapping

from server.engines.base import StartStop


class NoEngine(StartStop):
    """Always healthy; has no chat model."""

    @property
    def name(self) -> str:
        return "none"

    def healthy(self) -> bool:
        return True

    def chat_model(self, extra_body: Mapping[str, object] | None = None) -> None:
        return None
