"""What is asked of a model, what came back, and what that is worth.

A task knows how its answer is read; the answer itself is kept as it came (`synth.running.journal`) and judged
whenever it is needed, so that judging can be improved without asking again. Who asks is left to
`synth.running.live` and `synth.running.batch`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from synth.running.reading import Unreadable, read_json

T = TypeVar("T")

Message: TypeAlias = dict[str, str]
"""`{"role": …, "content": …}`, as OpenAI's chat endpoint takes it."""

Verdict: TypeAlias = Literal["good", "mended", "invalid", "truncated", "refused", "error"]
"""`mended` is a truncated answer of which the complete part was used."""

_SHOWN = 1500
# No further answer is expected to differ: the model declined, or has more to say than it may.
_FINAL = frozenset({"refused", "truncated"})


class InvalidAnswer(ValueError):
    """An answer has another form or content than was asked for; the message is shown to the model."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is asked. Another value of any of these is another question."""

    model: str
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One thing to ask: an instruction, the material, and how the answer is read.

    `item` is what a person calls it. `schema` is the JSON schema of the answer. `read` makes the
    result of the parsed JSON or raises InvalidAnswer; `mend`, if there is one, keeps of a truncated
    answer's JSON what is complete. `max_tokens` bounds the answer.
    """

    step: str
    item: str
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    read: Callable[[Any], T]
    mend: Callable[[Any], Any] | None = None

    def key(self, sampling: Sampling) -> str:
        """Names the question: 32 hex digits over everything that decides the answer."""
        asked = [self.step, self.system, self.user, self.schema, self.max_tokens]
        how = [sampling.model, sampling.temperature, sampling.seed]
        text = json.dumps([asked, how], sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def messages(self, before: Outcome[T] | None = None) -> list[Message]:
        """The conversation to send; after an answer that could not be used, with that answer and the reason."""
        messages = [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]
        if before is not None:
            said = before.answer.text[:_SHOWN] or "(nothing)"
            again = f"That answer cannot be used: {before.error} Answer again, only with JSON of the form asked for."
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": again}]
        return messages

    def response_format(self) -> dict[str, Any]:
        """The schema as OpenAI's `response_format`."""
        return {
            "type": "json_schema",
            "json_schema": {"name": self.step, "strict": True, "schema": dict(self.schema)},
        }

    def judge(self, answer: ModelReply) -> Outcome[T]:
        """What an answer is worth; the same for the same answer."""
        if answer.error:
            return Outcome(answer, "error", answer.error)
        if answer.finish in ("content_filter", "refusal"):
            return Outcome(answer, "refused", f"The model declined: {answer.text[:200]}")
        cut = answer.finish == "length"
        if cut and self.mend is None:
            return Outcome(answer, "truncated", f"The answer was cut after {self.max_tokens} tokens.")
        try:
            data = read_json(answer.text, self.schema)
            value = self.read(self.mend(data) if cut and self.mend is not None else data)
        except (InvalidAnswer, Unreadable) as error:
            return Outcome(answer, "truncated" if cut else "invalid", str(error))
        return Outcome(answer, "mended" if cut else "good", value=value)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back for a key: the text as it was, or the `error` instead of one.

    `attempt` counts from 0. `finish` is OpenAI's finish reason (`stop`, `length`, `content_filter`), or
    `refusal`. Tokens are the server's count, 0 where it told none; `seconds` are wall-clock, `at` is when it
    was there, in seconds since the epoch (both 0 for batches).
    """

    key: str
    attempt: int
    step: str
    item: str
    text: str = ""
    finish: str = "stop"
    error: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """A judged answer: `value` where the verdict is good or mended, else `error`."""

    answer: ModelReply
    verdict: Verdict
    error: str = ""
    value: T | None = None

    @property
    def usable(self) -> bool:
        return self.verdict in ("good", "mended")

    @property
    def worth_asking_again(self) -> bool:
        return not self.usable and self.verdict not in _FINAL


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a step is: items with an outcome, those among them without a usable one, and tokens so far."""

    step: str
    done: int
    total: int
    failed: int
    tokens_in: int
    tokens_out: int
