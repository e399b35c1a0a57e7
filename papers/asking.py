"""Asking a language model for a text and how likely it found it: `plugins.evidence.asking` with log probabilities."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugins.evidence.asking import AskingFailed, QuoteAsker, prompt_of
from rewriter.prompted import model_errors
from text.recorder import call
from text.sanitize import escape, fill

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True)
class SaidText:
    """A model's text, and the mean log probability of its tokens, 0 if it reports none."""

    text: str
    logprob: float = 0.0


class LikelihoodAsker(QuoteAsker):
    """Asks as `QuoteAsker`, and tells how likely an answer was."""

    async def _force(self, messages: Sequence[BaseMessage], text: str) -> list[float]:
        """Return the log probability of each token of `text` as the answer to `messages`."""
        raise NotImplementedError

    async def ask(self, prompt: str, parts: Mapping[str, str], tokens: int, system: str = "") -> str:
        """See `QuoteAsker`."""
        return (await self.say(prompt, parts, tokens, system)).text

    async def say(
        self,
        prompt: str,
        parts: Mapping[str, str],
        tokens: int,
        system: str = "",
        *,
        logprobs: bool = False,
        force: str = "",
    ) -> SaidText:
        """As `ask`; with `logprobs` also how likely it was, and with a text to `force` how likely that is.

        `force` needs a subclass that implements `_force`.
        """
        from langchain_core.messages import HumanMessage, SystemMessage

        escaped = {name: escape(text) for name, text in parts.items()}
        user_prompt = fill(prompt_of(f"{prompt}_user", self._package).text, escaped, missing=lambda _: "")
        instructions = prompt_of(system or prompt, self._package).text
        messages = [SystemMessage(instructions), HumanMessage(user_prompt)]
        bounded = self._model.bind(max_tokens=tokens, **({"logprobs": True} if logprobs else {}))
        replies: list[BaseMessage] = []
        likely: list[float] = []

        async def request() -> str:
            async with asyncio.timeout(self._seconds):
                if force:
                    likely[:] = await self._force(messages, force)
                    return force
                replies.append(await bounded.ainvoke(messages))
                return str(replies[-1].text)

        self.requests += 1
        try:
            with call(f"ask {prompt}") as this:
                this.prompt((("system", instructions), ("user", user_prompt)))
                reply = await self._patiently(request)
                likelihoods = (
                    (replies[-1].response_metadata.get("logprobs") or {}).get("content") or () if replies else ()
                )
                likely += [float(token["logprob"]) for token in likelihoods if token.get("logprob") is not None]
                mean = sum(likely) / max(1, len(likely))
                this.output({"text": reply})
                this.record(**({"mean_logprob": mean, "logprobs": likely} if likely else {}))
        except TimeoutError as error:
            raise AskingFailed(f"The language model took longer than {self._seconds:g} s.") from error
        except model_errors() as error:
            line = (str(error).splitlines() or [""])[0][:200]
            raise AskingFailed(f"The language model could not be asked ({type(error).__name__}: {line}).") from error
        self.chars += len(user_prompt) + len(reply)
        return SaidText(reply.strip(), mean)
