"""How likely a model finds a text that it is made to say: the log-probability of each of the text's tokens.

A vLLM tells them of a prompt that ends with the text. llama.cpp refuses that; there a grammar allows nothing but the
text, and the log-probabilities told are those before the grammar. Of other servers nothing of the kind is known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from papers.asking import QuoteAsker
from server.engines.base import EngineError

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
    more: dict[str, Any] = {**(payload.get("extra_body") or {})}
    if server == "vllm":
        asked = [*payload["messages"], {"role": "assistant", "content": text}]
        more |= {"add_generation_prompt": False, "continue_final_message": True, "prompt_logprobs": 0}
        bounds: dict[str, Any] = {"max_tokens": 1}
    else:
        asked, bounds = payload["messages"], {"max_tokens": TOKENS, "logprobs": True}
        more |= {"grammar": f"root ::= {json.dumps(text)}"}
    said = await client.async_client.create(
        model=payload["model"], messages=asked, temperature=0, extra_body=more, **bounds
    )
    if server == "vllm":
        told = [next(iter(one.values())) for one in (said.model_extra or {}).get("prompt_logprobs") or () if one]
        return _of_text([(str(one.get("decoded_token")), float(one["logprob"])) for one in told], text)
    given = said.choices[0].logprobs
    return _of_text([(one.token, one.logprob) for one in (given.content if given else None) or ()], text)


class ForcingAsker(QuoteAsker):
    """Ask a model, and tell how likely it finds a text that it is made to say."""

    async def _force(self, messages: Sequence[BaseMessage], text: str) -> list[float]:
        return await forced_logprobs(self._model, messages, text)


def perplexity(logprobs: Iterable[float]) -> float:
    """exp of minus their mean: 1 for a text that is certain, more for one that is not."""
    found = list(logprobs)
    return math.exp(-sum(found) / max(1, len(found)))


def _of_text(tokens: Iterable[tuple[str, float]], text: str) -> list[float]:
    """The log-probabilities of the tokens that make up the text, last where it stands twice; what else was told of, a
    prompt before it or the end of an answer behind it, is passed over."""
    found, said = list[float](), ""
    for token, logprob in reversed([one for one in tokens if one[0]]):
        if said.lstrip() == text:
            break
        if text.endswith((token + said).lstrip()):
            said, found = token + said, [logprob, *found]
        else:
            found, said = [], ""
    if said.lstrip() != text:
        raise ForcingUnavailable(f"The language model's server did not tell how likely {text[:40]!r} is.")
    return found
