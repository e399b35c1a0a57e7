"""Asking a language model for one short text, from prompts whose parts are a document's words.

Those words are escaped, and stand between tags that they cannot close. When a request may begin, and what becomes of a
model that fails, is left to whoever asks.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import regex

from rewriter.prompted import model_errors
from rewriter.prompts import load_prompt
from server.engines.errors import EngineError
from text.unsafe import escape

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PACKAGE = "server.evidence.prompts"
_FIELD = regex.compile(r"\{\{(\w+)\}\}")

Patiently: TypeAlias = Callable[[Callable[[], Awaitable[str]]], Awaitable[str]]
"""Runs a request when it may run, and again where it had to be broken off."""


class AskingFailed(EngineError):
    """The language model gave nothing: it cannot be reached, took too long, or answered with an error."""


async def _at_once(call: Callable[[], Awaitable[str]]) -> str:
    return await call()


class QuoteAsker:
    """Asks `chat_model`, each time for at most so many tokens and `seconds`."""

    def __init__(self, chat_model: BaseChatModel, seconds: float = 120.0, patiently: Patiently = _at_once) -> None:
        self._model = chat_model
        self._seconds = seconds
        self._patiently = patiently
        self.requests = 0
        self.chars = 0
        """Characters sent and received, for whoever counts."""

    async def ask(self, prompt: str, parts: Mapping[str, str], tokens: int, system: str = "") -> str:
        """What the model says to the prompt of this name (its user's part is `<name>_user`, of the instructions
        `system` if those are another's). Raises AskingFailed."""
        from langchain_core.messages import HumanMessage, SystemMessage

        escaped = {name: escape(text) for name, text in parts.items()}
        # In one pass, so that what is filled in is never filled again.
        asked = _FIELD.sub(lambda match: escaped.get(match[1], ""), load_prompt(PACKAGE, f"{prompt}_user").text)
        messages = [SystemMessage(load_prompt(PACKAGE, system or prompt).text), HumanMessage(asked)]
        bounded = self._model.bind(max_tokens=tokens)

        async def request() -> str:
            async with asyncio.timeout(self._seconds):
                return str((await bounded.ainvoke(messages)).text)

        self.requests += 1
        try:
            said = await self._patiently(request)
        except TimeoutError as error:
            raise AskingFailed(f"The language model took longer than {self._seconds:g} s.") from error
        except model_errors() as error:
            line = (str(error).splitlines() or [""])[0][:200]
            raise AskingFailed(f"The language model could not be asked ({type(error).__name__}: {line}).") from error
        self.chars += len(asked) + len(said)
        return said.strip()


def prompts_version(*names: str) -> str:
    """Changes whenever one of these prompts does."""
    versions = [load_prompt(PACKAGE, name).version for one in names for name in (one, f"{one}_user")]
    return hashlib.sha256(".".join(versions).encode()).hexdigest()[:12]
