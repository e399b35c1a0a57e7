"""Asking a language model for one short text, from prompts whose parts are a document's words.

Those words are escaped, and stand between tags that they cannot close. When a request may begin, and what becomes of a
model that fails, is left to whoever asks.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from rewriter.prompted import model_errors
from rewriter.prompts import Prompt, load_prompt
from server.engines.base import EngineError
from text.recorder import call
from text.sanitize import escape, fill

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PACKAGE = "plugins.evidence.prompts"

Patiently: TypeAlias = Callable[[Callable[[], Awaitable[str]]], Awaitable[str]]
"""Runs a request when it may run, and again where it had to be broken off."""


class AskingFailed(EngineError):
    """The language model gave nothing: it cannot be reached, took too long, or answered with an error."""


async def _at_once(call: Callable[[], Awaitable[str]]) -> str:
    return await call()


class QuoteAsker:
    """Asks `chat_model`, each time for at most so many tokens and `seconds`, by the prompts of `package`."""

    def __init__(
        self,
        chat_model: BaseChatModel,
        seconds: float = 120.0,
        patiently: Patiently = _at_once,
        package: str = PACKAGE,
    ) -> None:
        self._model = chat_model
        self._package = package
        self._seconds = seconds
        self._patiently = patiently
        self.requests = 0
        self.chars = 0
        """Characters sent and received, for whoever counts."""

    async def ask(self, prompt: str, parts: Mapping[str, str], tokens: int, system: str = "") -> str:
        """Ask the model the prompt of this name (the user's part is `<name>_user`; another prompt's instructions may be
        named with `system`). Raises AskingFailed."""
        from langchain_core.messages import HumanMessage, SystemMessage

        escaped = {name: escape(text) for name, text in parts.items()}
        user_prompt = fill(prompt_of(f"{prompt}_user", self._package).text, escaped, missing=lambda _: "")
        instructions = prompt_of(system or prompt, self._package).text
        messages = [SystemMessage(instructions), HumanMessage(user_prompt)]

        async def request() -> str:
            async with asyncio.timeout(self._seconds):
                return str((await self._model.bind(max_tokens=tokens).ainvoke(messages)).text)

        self.requests += 1
        try:
            with call(f"ask {prompt}") as this:
                this.prompt((("system", instructions), ("user", user_prompt)))
                reply = await self._patiently(request)
                this.output({"text": reply})
        except TimeoutError as error:
            raise AskingFailed(f"The language model took longer than {self._seconds:g} s.") from error
        except model_errors() as error:
            line = (str(error).splitlines() or [""])[0][:200]
            raise AskingFailed(f"The language model could not be asked ({type(error).__name__}: {line}).") from error
        self.chars += len(user_prompt) + len(reply)
        return reply.strip()


def prompt_of(name: str, package: str = PACKAGE) -> Prompt:
    """Load a prompt by its name, or by `package:name`."""
    own, _, short = name.rpartition(":")
    return load_prompt(own or package, short)


def prompts_version(*names: str) -> str:
    """Changes whenever one of these prompts does."""
    versions = [prompt_of(name).version for prompt_name in names for name in (prompt_name, f"{prompt_name}_user")]
    return hashlib.sha256(".".join(versions).encode()).hexdigest()[:12]
