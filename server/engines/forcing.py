"""How likely a model finds a text that it is made to say: the log-probability of each of the text's tokens.

A vLLM tells them of a prompt that ends with the text. llama.cpp refuses that; there a grammar allows nothing but the
text, and the log-probabilities told are those before the grammar. Of other servers nothing of the kind is known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from server.engines.errors import EngineError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

TOKENS = 200
"""Longest forced text, in tokens."""


class ForcingUnavailable(EngineError):
    """The server of this model does not tell how likely a given text is."""


def demand_forcing(model: BaseChatModel) -> str:
    """What serves this model: `vllm` or `llamacpp`. Raises ForcingUnavailable."""
    server: str = getattr(model, "served_by", "")
    if not server:
        raise ForcingUnavailable(
            "The server of this language model does not tell how likely a given text is, which perplexity needs: use a "
            "model that runs here (llama.cpp), or a vLLM, or another recipe."
        )
    return server


async def forced_logprobs(model: BaseChatModel, messages: Sequence[BaseMessage], text: str) -> list[float]:
    """The natural log-probability of each token of `text` as the answer to `messages`, in the text's order.

    Raises ForcingUnavailable, and what the model's client raises.
    """
    server, client = demand_forcing(model), cast("Any", model)
    payload = client._get_request_payload(list(messages))
    asked, more = payload["messages"], dict(payload.get("extra_body") or {})
    if server == "vllm":
        asked = [*asked, {"role": "assistant", "content": text}]
        more |= {"add_generation_prompt": False, "continue_final_message": True, "prompt_logprobs": 0}
        said = await client.async_client.create(
            model=payload["model"], messages=asked, max_tokens=1, temperature=0, extra_body=more
        )
        told = (said.model_extra or {}).get("prompt_logprobs") or ()
        tokens = [next(iter(one.values())) for one in told if one]
        return _ending([(str(one.get("decoded_token")), float(one["logprob"])) for one in tokens], text)
    said = await client.async_client.create(
        model=payload["model"],
        messages=asked,
        max_tokens=TOKENS,
        temperature=0,
        logprobs=True,
        extra_body=more | {"grammar": grammar(text)},
    )
    given = said.choices[0].logprobs
    return _beginning([(one.token, one.logprob) for one in (given.content if given else None) or ()], text)


def grammar(text: str) -> str:
    """A GBNF grammar of this text alone."""
    return f"root ::= {json.dumps(text)}"


def perplexity(logprobs: Iterable[float]) -> float:
    """exp of minus their mean: 1 for a text that is certain, more for one that is not."""
    found = list(logprobs)
    return math.exp(-sum(found) / max(1, len(found)))


def _beginning(tokens: Sequence[tuple[str, float]], text: str) -> list[float]:
    """Of the tokens that make up the text; behind them stands the end of the answer."""
    found, said = list[float](), ""
    for token, logprob in tokens:
        if said == text:
            break
        said, found = said + token, [*found, logprob]
    return _whole(found, said, text)


def _ending(tokens: Sequence[tuple[str, float]], text: str) -> list[float]:
    """Of the tokens at the end of the prompt that make up the text."""
    found, said = list[float](), ""
    for token, logprob in reversed(tokens):
        if len(said) >= len(text):
            break
        said, found = token + said, [logprob, *found]
    return _whole(found, said, text)


def _whole(found: list[float], said: str, text: str) -> list[float]:
    if said.strip() != text:
        raise ForcingUnavailable(f"The language model's server told of {said[:80]!r}, where it was made to say a text.")
    return found
