"""Asking a language model for one short text, from prompts whose parts are a document's words, and how likely it was.

Those words are escaped, and stand between tags that they cannot close.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from evaluation.answers import rate
from rewriter.prompted import model_errors
from server.engines.base import EngineError
from text.prompts import Prompt, fill, load_prompt
from text.recorder import call
from text.sanitize import escape

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

PACKAGE = "papers.decontextualization.prompts"


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """One score from 1 to 5, and everything it was asked with."""

    criterion: str
    score: float
    said: str
    system: str
    prompt: str
    rubric: str
    """Version of the rubric."""


def rubric() -> Prompt:
    """The instruction of the judge, with a place for the criterion."""
    return load_prompt("evaluation", "rubric")


def judged_as(
    model: BaseChatModel, criteria: Mapping[str, str], name: str, parts: Mapping[str, str]
) -> list[JudgeVerdict]:
    """Verdicts on whatever the prompt `package:name` shows; its `parts` are escaped here."""
    package, _, short = name.rpartition(":")
    prompt = fill(load_prompt(package, short).text, {key: escape(text) for key, text in parts.items()})
    verdicts = []
    for criterion, words in criteria.items():
        system = fill(rubric().text, {"criterion": words})
        score, said = rate(model, system, prompt)
        if score is not None:
            verdicts.append(JudgeVerdict(criterion, score, said, system, prompt, rubric().version))
    return verdicts


class AskingFailed(EngineError):
    """The language model gave nothing: it cannot be reached, took too long, or answered with an error."""


@dataclass(frozen=True, slots=True)
class SaidText:
    """A model's text, and the mean log probability of its tokens, 0 if it reports none."""

    text: str
    logprob: float = 0.0


class QuoteAsker:
    """Asks `chat_model`, each time for at most so many tokens and `seconds`, by the prompts of `package`."""

    def __init__(self, chat_model: BaseChatModel, seconds: float = 120.0, package: str = PACKAGE) -> None:
        self._model = chat_model
        self._package = package
        self._seconds = seconds
        self.requests = 0
        self.chars = 0
        """Characters sent and received, for whoever counts."""

    async def _force(self, messages: Sequence[BaseMessage], text: str) -> list[float]:
        """Return the log probability of each token of `text` as the answer to `messages`."""
        raise NotImplementedError

    async def ask(self, prompt: str, parts: Mapping[str, str], tokens: int, system: str = "") -> str:
        """Ask the model the prompt of this name (the user's part is `<name>_user`; another prompt's instructions may be
        named with `system`). Raises AskingFailed."""
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
        likely: list[float] = []
        self.requests += 1
        try:
            with call(f"ask {prompt}") as this:
                this.prompt((("system", instructions), ("user", user_prompt)))
                async with asyncio.timeout(self._seconds):
                    if force:
                        reply, likely = force, await self._force(messages, force)
                    else:
                        answer = await bounded.ainvoke(messages)
                        reply = str(answer.text)
                        reported = (answer.response_metadata.get("logprobs") or {}).get("content") or ()
                        likely = [float(token["logprob"]) for token in reported if token.get("logprob") is not None]
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


def prompt_of(name: str, package: str = PACKAGE) -> Prompt:
    """Load a prompt by its name, or by `package:name`."""
    own, _, short = name.rpartition(":")
    return load_prompt(own or package, short)


def prompts_version(*names: str) -> str:
    """Return a mark that changes whenever one of these prompts does."""
    versions = [prompt_of(name).version for prompt_name in names for name in (prompt_name, f"{prompt_name}_user")]
    return hashlib.sha256(".".join(versions).encode()).hexdigest()[:12]


_ASKS_WHETHER = regex.compile(
    r"\W*(?:(?:and|but|so|or|also|then)\W+)*(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should"
    r"|may|might|must)(?:n['’]t)?\s",
    regex.IGNORECASE,
)


def asks_whether(question: str) -> bool:
    """Whether a question can be answered with yes or no, told by the English word it begins with."""
    return bool(_ASKS_WHETHER.match(question))
