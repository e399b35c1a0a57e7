"""Settling tasks: what is answered is judged, what is not is asked, live or through batch files.

One code path for every way of asking: an asker is handed what is pending and reports answers to `record`; one
that cannot wait (batch files) reports none, and the run pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from synth.running.journal import Journal
from synth.running.tasks import Message, ModelReply, Outcome, Sampling, Task, TaskProgress

T = TypeVar("T")

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
        """An answer to this attempt."""
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


class Settler:
    """Brings tasks to an outcome with the journal's answers and an asker's."""

    def __init__(
        self,
        journal: Journal,
        sampling: Sampling,
        asker: Asker,
        *,
        attempts: int = ATTEMPTS,
        report: Callable[[TaskProgress], None] | None = None,
    ) -> None:
        self._journal = journal
        self.sampling = sampling
        self._asker = asker
        self._attempts = attempts
        self._report = report or (lambda _: None)
        self.judged: set[str] = set()
        """Keys of every task that was looked at."""

    def settle(self, tasks: Sequence[Task[T]]) -> list[Outcome[T]]:
        """The outcome of each task, in order; failed ones too. Raises Paused while any is open, or ModelFailed."""
        self.ask(tasks)
        found = [self.state(task) for task in tasks]
        if left := sum(isinstance(state, Pending) for state in found):
            raise Paused(" + ".join(dict.fromkeys(task.step for task in tasks)), left)
        return [state for state in found if isinstance(state, Outcome)]

    def ask(self, tasks: Sequence[Task[T]]) -> None:
        """Ask what is pending; some of it may stay so."""
        states = [self.state(task) for task in tasks]
        pending = list({state.key: state for state in states if isinstance(state, Pending)}.values())
        outcomes = [state for state in states if isinstance(state, Outcome)]
        if not pending:
            return
        steps = " + ".join(dict.fromkeys(task.step for task in tasks))
        tally = _Tally(steps, len(tasks), len(states) - len(pending), outcomes)
        self._report(tally.progress())

        def record(asked: Pending[Any], answer: ModelReply) -> Pending[Any] | None:
            self._journal.add(answer)
            state = self.state(asked.task)
            tally.count(answer, state)
            self._report(tally.progress())
            return state if isinstance(state, Pending) else None

        self._asker.ask(pending, record)

    def answers(self, task: Task[Any]) -> list[ModelReply]:
        """Every answer a task was given, by attempt."""
        return self._journal.answers(task.key(self.sampling))

    def state(self, task: Task[T]) -> Outcome[T] | Pending[T]:
        """A task's outcome, or its next attempt."""
        key = task.key(self.sampling)
        self.judged.add(key)
        last: Outcome[T] | None = None
        answers = self._journal.answers(key)
        for answer in answers:
            last = task.judge(answer)
            if not last.worth_asking_again:
                return last
        if last is not None and len(answers) >= self._attempts:
            return last
        # A connection that failed says nothing the model could mend.
        before = last if last is not None and last.verdict != "error" else None
        return Pending(task, key, max((answer.attempt for answer in answers), default=-1) + 1, before)


class _Tally:
    """Counts for the progress display."""

    def __init__(self, step: str, total: int, done: int, outcomes: Sequence[Outcome[Any]]) -> None:
        self._step, self._total, self._done = step, total, done
        self._failed = sum(not outcome.usable for outcome in outcomes)
        self._in = self._out = 0

    def count(self, answer: ModelReply, state: Outcome[Any] | Pending[Any]) -> None:
        self._in += answer.tokens_in
        self._out += answer.tokens_out
        if isinstance(state, Outcome):
            self._done += 1
            self._failed += not state.usable

    def progress(self) -> TaskProgress:
        return TaskProgress(self._step, self._done, self._total, self._failed, self._in, self._out)
