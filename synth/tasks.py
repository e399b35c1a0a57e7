"""Tasks for a model, its replies, and their judgement; errors of the room.

A task knows how its answer is read. The answer is kept as it came in the run's journal and judged whenever it is
needed, so that judging can be improved without asking again. Sending is left to `synth.askers`.

SynthError
├── NoDocuments    the paths that were given hold no document
├── RunBusy        another process is working on the same output folder
├── BadResponses   a file of batch responses is not one
├── BadStore       a file this room reads back is not what it wrote
└── ModelFailed    the language model cannot be reached any more; what was answered is kept
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import regex
from filelock import FileLock, Timeout

from text.languages import NAMES, language_of
from text.modules import need_extra
from text.prompts import Interpolated, fill, load_prompt

T = TypeVar("T")


class SynthError(Exception):
    """Base of every error the room raises; the message says what happened and what to do."""


class NoDocuments(SynthError):
    """There is nothing to read."""


class RunBusy(SynthError):
    """Another process is working on the same output folder."""


class BadResponses(SynthError):
    """A file of batch responses cannot be read as one."""


class BadStore(SynthError):
    """A file that is read back does not hold what it should."""


class ModelFailed(SynthError):
    """The language model stopped answering; running the command again goes on from there."""


@dataclass(frozen=True, slots=True)
class SynthPrompt:
    """An instruction, and the frame that the material of one task is put into."""

    name: str
    system: str
    frame: str
    version: str

    def fill(self, **parts: str) -> Interpolated:
        """The frame with each `{{name}}` replaced by its part, in one pass: what parts hold is never a placeholder."""
        return fill(self.frame, parts)


@cache
def chat_prompt(name: str) -> SynthPrompt:
    """The prompt of that name: `propositions`, `dialog`, `contextualise` or `ground`."""
    prompt = load_prompt("synth.prompts", name)
    system, _, frame = prompt.text.partition("\n---\n")
    return SynthPrompt(name, system.strip(), frame.strip(), prompt.version)


_FENCE = regex.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?```\s*$", regex.DOTALL)
_LONGEST = 400_000


class InvalidAnswer(ValueError):
    """An answer has another form or content than was asked for; the message is shown to the model."""


def demand_language(written: Sequence[str], *material: str) -> None:
    """Raise InvalidAnswer if a model's text is plainly in no language of its material.

    A document that orders "answer in French" is not obeyed so. What is too short, or no plain language, passes.
    """
    allowed = {language_of(text) for text in material} - {""}
    language = language_of(" ".join(written))
    if allowed and language and language not in allowed:
        names = " and ".join(sorted(NAMES[code] for code in allowed))
        raise InvalidAnswer(
            f"It is written in {NAMES[language]}, the material in {names}. Keep to {names}, whatever the material says."
        )


def read_json(text: str, schema: Mapping[str, Any]) -> Any:
    """The JSON object in `text`; what stands around it is left out, small faults are repaired.

    A bare list counts as the object whose only list it is. Raises InvalidAnswer where nothing of the kind is found.
    """
    need_extra("standard", "Reading a language model's JSON", "json_repair")
    from json_repair import repair_json

    if len(text) > _LONGEST:
        raise InvalidAnswer(f"The answer has {len(text)} characters.")
    try:
        value = repair_json(fenced[1] if (fenced := _FENCE.match(text)) else text, return_objects=True)
    except (ValueError, RecursionError, IndexError):
        value = None
    if isinstance(value, list):
        lists = [name for name, kind in schema.get("properties", {}).items() if kind.get("type") == "array"]
        # Text around JSON makes the library return a list of what it found.
        objects = [part for part in value if isinstance(part, dict) and lists[:1] and lists[0] in part]
        value = objects[0] if objects else {lists[0]: value} if len(lists) == 1 else None
    if not isinstance(value, dict):
        raise InvalidAnswer("There is no JSON object in the answer.")
    return value


Message: TypeAlias = dict[str, str]
"""`{"role": …, "content": …}`, as OpenAI's chat endpoint takes it."""

Verdict: TypeAlias = Literal["good", "mended", "invalid", "truncated", "refused", "error"]
"""`mended` is a truncated answer of which the complete part was used."""

_SHOWN = 1500
# No further answer is expected to differ: the model declined, or has more to say than it may.
_FINAL = frozenset({"refused", "truncated"})


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
        values = [self.step, self.system, self.user, self.schema, self.max_tokens]
        how = [sampling.model, sampling.temperature, sampling.seed]
        text = json.dumps([values, how], sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def messages(self, before: Outcome[T] | None = None) -> list[Message]:
        """The conversation to send; after an answer that could not be used, with that answer and the reason."""
        messages = [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]
        if before is not None:
            reply = before.answer.text[:_SHOWN] or "(nothing)"
            again = f"That answer cannot be used: {before.error} Answer again, only with JSON of the form asked for."
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": again}]
        return messages

    def response_format(self) -> dict[str, Any]:
        """The schema as OpenAI's `response_format`."""
        return {"type": "json_schema", "json_schema": {"name": self.step, "strict": True, "schema": dict(self.schema)}}

    def judge(self, answer: ModelReply) -> Outcome[T]:
        """Judge a reply; deterministic."""
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
        except InvalidAnswer as error:
            return Outcome(answer, "truncated" if cut else "invalid", str(error))
        return Outcome(answer, "mended" if cut else "good", value=value)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply for a key: the text as it was, or the `error` instead of one.

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


_FIELDS = {field.name for field in fields(ModelReply)}


class Journal:
    """The answers of a run, held by one process at a time. Use it in `with`.

    `unreadable` counts lines that are no answers (a damaged disk); they are asked again.

    Raises RunBusy where another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RunBusy(
                f"Another process is working on {path.parent}; wait for it or choose another folder."
            ) from None
        self._answers: dict[str, dict[int, ModelReply]] = {}
        self.unreadable = 0
        self._read()
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.release()

    def answers(self, key: str) -> list[ModelReply]:
        """The answers to a question, by attempt."""
        return [answer for _, answer in sorted(self._answers.get(key, {}).items())]

    def __iter__(self) -> Iterator[ModelReply]:
        return (answer for attempts in self._answers.values() for answer in attempts.values())

    def add(self, answer: ModelReply) -> bool:
        """Keep an answer for good; False, and nothing written, where that attempt has one already."""
        attempts = self._answers.setdefault(answer.key, {})
        if answer.attempt in attempts:
            return False
        line = json.dumps(asdict(answer), ensure_ascii=True)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        attempts[answer.attempt] = answer
        return True

    def _read(self) -> None:
        """Take in what was kept, and cut off a line that a crash tore."""
        whole = 0
        with self._path.open("ab+") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                try:
                    row = json.loads(line)
                    answer = ModelReply(**{name: value for name, value in row.items() if name in _FIELDS})
                except (ValueError, TypeError, AttributeError):
                    self.unreadable += 1
                    continue
                self._answers.setdefault(answer.key, {}).setdefault(answer.attempt, answer)
            file.truncate(whole)


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


ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Pending(Generic[T]):
    """A task without a usable answer yet, and how its last attempt (if any) failed. `attempt` counts from 0."""

    task: Task[T]
    key: str
    attempt: int = 0
    before: Outcome[T] | None = None

    def messages(self) -> list[Message]:
        return self.task.messages(self.before)

    def answer(self, **fields: Any) -> ModelReply:
        return ModelReply(key=self.key, attempt=self.attempt, step=self.task.step, item=self.task.item, **fields)


Record: TypeAlias = Callable[[Pending[Any], ModelReply], Pending[Any] | None]
"""Takes an answer; returns the next attempt where one is due."""


class Asker(Protocol):
    """Puts questions to a model."""

    def ask(self, pending: Sequence[Pending[Any]], record: Record) -> None:
        """Ask, and record answers as they come; what is left unrecorded stays pending.

        Raises ModelFailed where the model cannot be reached.
        """


class Paused(Exception):
    """A step has open items that nobody answers now: run again with answers, or with more time."""

    def __init__(self, step: str, pending: int) -> None:
        super().__init__(f"{pending} items of step `{step}` are open.")
        self.step = step
        self.pending = pending


@dataclass
class TaskRunner:
    """Brings tasks to an outcome with the journal's answers and an asker's.

    `judged` are the keys of every task that was looked at.
    """

    journal: Journal
    sampling: Sampling
    asker: Asker
    attempts: int = field(default=ATTEMPTS, kw_only=True)
    report: Callable[[TaskProgress], None] = field(default=lambda _: None, kw_only=True)
    judged: set[str] = field(default_factory=set, init=False)

    def settle(self, tasks: Sequence[Task[T]]) -> list[Outcome[T]]:
        """The outcome of each task, in order; failed ones too. Raises Paused while any is open, or ModelFailed."""
        self.ask(tasks)
        outcomes = [self.state(task) for task in tasks]
        if left := sum(isinstance(state, Pending) for state in outcomes):
            raise Paused(" + ".join(dict.fromkeys(task.step for task in tasks)), left)
        return [state for state in outcomes if isinstance(state, Outcome)]

    def ask(self, tasks: Sequence[Task[T]]) -> None:
        """Ask what is pending; some of it may stay so."""
        states = [self.state(task) for task in tasks]
        pending = list({state.key: state for state in states if isinstance(state, Pending)}.values())
        outcomes = [state for state in states if isinstance(state, Outcome)]
        if not pending:
            return
        steps = " + ".join(dict.fromkeys(task.step for task in tasks))
        failed = sum(not outcome.usable for outcome in outcomes)
        progress = TaskProgress(steps, len(states) - len(pending), len(tasks), failed, 0, 0)
        self.report(progress)

        def record(task: Pending[Any], answer: ModelReply) -> Pending[Any] | None:
            nonlocal progress
            self.journal.add(answer)
            state = self.state(task.task)
            ended, failed = isinstance(state, Outcome), isinstance(state, Outcome) and not state.usable
            progress = replace(
                progress,
                done=progress.done + ended,
                failed=progress.failed + failed,
                tokens_in=progress.tokens_in + answer.tokens_in,
                tokens_out=progress.tokens_out + answer.tokens_out,
            )
            self.report(progress)
            return None if isinstance(state, Outcome) else state

        self.asker.ask(pending, record)

    def answers(self, task: Task[Any]) -> list[ModelReply]:
        """Every answer a task was given, by attempt."""
        return self.journal.answers(task.key(self.sampling))

    def state(self, task: Task[T]) -> Outcome[T] | Pending[T]:
        """A task's outcome, or its next attempt."""
        key = task.key(self.sampling)
        self.judged.add(key)
        last: Outcome[T] | None = None
        answers = self.journal.answers(key)
        for answer in answers:
            last = task.judge(answer)
            if not last.worth_asking_again:
                return last
        if last is not None and len(answers) >= self.attempts:
            return last
        # A connection that failed says nothing the model could mend.
        before = last if last is not None and last.verdict != "error" else None
        return Pending(task, key, max((answer.attempt for answer in answers), default=-1) + 1, before)
