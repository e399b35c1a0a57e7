"""The conditional rewriter as a turn meets it: gate, phrase, guard, within its time.

It decides by the calibrated gate, asks the engine for a rewrite where the gate opens, and lets the guard read what
came. Whatever goes wrong, the typed question is used, with the words of the term rewriter where that decides, and the
reason told.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rewriter import guard
from rewriter.conditional import form as run_folder
from rewriter.conditional.engine import ConditionalEngine, Stop
from rewriter.conditional.features import hint, open_words
from rewriter.conditional.form import Form
from rewriter.gate import RewriteGate
from rewriter.load import verify
from rewriter.protocol import Conversation, Rewrite, Rewriter, RewriterError, RunError
from text.modules import need_extra

if TYPE_CHECKING:
    from rewriter.load import Serving


Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BATCH = 16
IDLE_SECONDS = 60.0
"""A thread without work for so long ends: a rewriter that another took over from can then be forgotten."""


@dataclass(slots=True)
class _Ticket(Generic[Item, Result]):
    item: Item
    deadline: float
    done: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: Exception | None = None
    abandoned: bool = False

    def unanswerable(self) -> bool:
        return self.abandoned or time.monotonic() > self.deadline


class Late(Exception):
    """The time of a request ran out before its result was there."""


class Batcher(Generic[Item, Result]):
    """Runs `work(items, stop)` over what waits, in order; results are parallel to items.

    `stop` turns True when nobody waits for the batch any more. The thread is a daemon, starts with a request and
    ends after `idle` seconds without one; `close` ends it for good.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item], Callable[[], bool]], Sequence[Result]],
        max_batch: int = MAX_BATCH,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self._work = work
        self._max = max_batch
        self._idle = idle
        self._waiting: deque[_Ticket[Item, Result]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, item: Item, seconds: float) -> Result:
        """The result for one item; raises Late after `seconds`, and what `work` raised."""
        ticket = _Ticket[Item, Result](item, time.monotonic() + seconds)
        with self._changed:
            if self._closed:
                raise RuntimeError("The rewriter is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="rewriter", daemon=True)
                self._thread.start()
            self._waiting.append(ticket)
            self._changed.notify()
        try:
            finished = ticket.done.wait(seconds)
        finally:
            ticket.abandoned = not ticket.done.is_set()
        if not finished:
            raise Late(f"It took longer than {seconds:g} s.")
        if ticket.error is not None:
            raise ticket.error
        if ticket.result is None:
            raise Late(f"It took longer than {seconds:g} s.")
        return ticket.result

    def close(self) -> None:
        """End the thread once its batch is done; requests that wait are answered with Late."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed, self._idle)
                if not self._waiting and not self._closed:
                    self._thread = None
                    return
                if self._closed:
                    for ticket in self._waiting:
                        ticket.done.set()
                    return
                batch = [self._waiting.popleft() for _ in range(min(self._max, len(self._waiting)))]
            self._handle([ticket for ticket in batch if not ticket.unanswerable()])

    def _handle(self, batch: list[_Ticket[Item, Result]]) -> None:
        if not batch:
            return
        try:
            results = self._work([ticket.item for ticket in batch], lambda: all(t.unanswerable() for t in batch))
            for ticket, result in zip(batch, results, strict=True):
                # What comes after its time may have been stopped in the midst.
                ticket.result = None if ticket.unanswerable() else result
        except Exception as error:  # noqa: BLE001  (handed to those who wait; the thread must outlive a bad batch)
            for ticket in batch:
                ticket.error = error
        for ticket in batch:
            ticket.done.set()


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Output of the model for one source: probability that a rewrite is needed, and rewrites best first."""

    probability: float
    texts: tuple[str, ...]


class ConditionalRewriter:
    """Serves one model to many threads.

    `alternatives` asks for that many further rewrites, by beam search; `timeout_seconds` bounds a turn, waiting
    for others included. `name` is shown in traces. `words` is a term rewriter that decides in the gate's place.
    """

    def __init__(
        self,
        engine: ConditionalEngine,
        form: Form,
        gate: RewriteGate,
        *,
        name: str = "t5",
        timeout_seconds: float = 2.0,
        alternatives: int = 0,
        words: Rewriter | None = None,
    ) -> None:
        self.engine = engine
        self.form = form
        self.gate = gate
        self._name = name
        self._timeout = timeout_seconds
        self._alternatives = alternatives
        self._words = words
        self._batcher = Batcher[list[int], Proposal](self.propose)

    @property
    def name(self) -> str:
        return self._name

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Decide and phrase; never raises. `confidence` is the gate's belief in its decision."""
        if not conversation or not question.strip():
            return Rewrite(question, "keep", confidence=1.0, history_probability=0.0)
        started = time.perf_counter()
        hinted = self._words.rewrite(conversation, question) if self._words else None
        if hinted is not None and hinted.decision != "expand":
            return hinted
        try:
            source = self.form.source(conversation, question, hint(hinted))
            result = self._judged(conversation, question, self._batcher.run(source, self._timeout), hinted)
        except Late as late:
            result = Rewrite(question, "failed", reason=str(late))
        except Exception as error:  # a turn must never fall over its rewriter
            log.exception("the rewriter failed")
            result = Rewrite(question, "failed", reason=f"The rewriter failed ({type(error).__name__}: {error}).")
        if hinted is not None and result.decision != "rewrite":
            result = replace(hinted, reason=result.reason)
        return replace(result, seconds=time.perf_counter() - started)

    def close(self) -> None:
        """End the serving thread."""
        self._batcher.close()

    def _judged(self, conversation: Conversation, question: str, proposal: Proposal, hinted: Rewrite | None) -> Rewrite:
        p = proposal.probability if hinted is None or hinted.history_probability is None else hinted.history_probability
        if hinted is None and p < self.gate.threshold:
            return Rewrite(question, "keep", confidence=1 - p, history_probability=p)
        reason = "The model wrote nothing."
        passed = list[str]()
        for text in proposal.texts:
            refused = guard.check(conversation, question, text)
            if not refused:
                passed.append(text)
            elif not passed:
                reason = refused
        if not passed:
            return Rewrite(question, "refused", confidence=p, reason=reason, history_probability=p)
        result = Rewrite(passed[0], "rewrite", confidence=p, alternatives=tuple(passed[1:]), history_probability=p)
        return replace(result, expansion=hinted.expansion) if hinted else result

    def propose(self, sources: Sequence[list[int]], stop: Stop) -> list[Proposal]:
        """One greedy pass over all, a second one for those whose gate opens only by its threshold.

        Where the term rewriter decides, all are phrased.
        """
        limit = self.form.lengths.target
        if self._words is not None:
            phrases = self.engine.phrase(sources, limit, 1 + self._alternatives, stop)
            return [Proposal(1.0, self._texts(sequences)) for sequences in phrases]
        decided = self.engine.decide(sources, 0 if self._alternatives else limit, stop)
        p = [self.gate.probability(decision.difference) for decision in decided]
        texts: list[tuple[str, ...]] = [
            (self.form.text(decision.phrased),) if decision.phrased and not self._alternatives else ()
            for decision in decided
        ]
        again = [i for i in range(len(sources)) if p[i] >= self.gate.threshold and not texts[i]]
        if again and not stop():
            phrases = self.engine.phrase([sources[i] for i in again], limit, 1 + self._alternatives, stop)
            for i, sequences in zip(again, phrases, strict=True):
                texts[i] = self._texts(sequences)
        return [Proposal(probability, text) for probability, text in zip(p, texts, strict=True)]

    def _texts(self, sequences: Sequence[Sequence[int]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for ids in sequences if (text := self.form.text(ids))))


def load(folder: Path, description: dict[str, Any], serving: Serving) -> ConditionalRewriter:
    """The rewriter of a finished run folder. Raises RunError where its files are missing, damaged or of another run."""
    run = run_folder.read(folder, description)
    verify(folder, description)
    form = run.form(folder, messages=serving.history_messages)
    gate = run.gate if serving.threshold is None else replace(run.gate, threshold=serving.threshold)
    return ConditionalRewriter(
        open_engine(folder, run, form, serving),
        form,
        gate,
        name=run.family,
        timeout_seconds=serving.timeout_seconds,
        alternatives=serving.alternatives,
        words=open_words(serving) if run.words else None,
    )


def open_engine(folder: Path, run: run_folder.RunFolder, form: Form, serving: Serving) -> ConditionalEngine:
    """CTranslate2 where the run has an export, else torch; on a GPU where one is asked for or found."""
    from rewriter.conditional.engine import Ct2Engine, TorchEngine, cuda_devices

    if run.exports:
        count = cuda_devices()
        if serving.device == "cuda" and not count:
            raise RunError("No GPU can be used by CTranslate2 here; set the rewriter's device to `cpu` or `auto`.")
        device = "cuda" if count and serving.device != "cpu" else "cpu"
        kind = "float16" if device == "cuda" and "float16" in run.exports else run.exports[0]
        try:
            return Ct2Engine(folder / run_folder.EXPORT / kind, form, device, serving.threads)
        except RewriterError:
            if device == "cpu" or serving.device == "cuda":
                raise
            log.warning("the GPU cannot run the rewriter; it runs on the CPU", exc_info=True)
            return Ct2Engine(folder / run_folder.EXPORT / run.exports[0], form, "cpu", serving.threads)
    weights = folder / run_folder.WEIGHTS
    need_extra("hub", f"The rewriter in {folder}", "torch", "transformers", error=RunError)
    import torch

    device = "cuda" if serving.device != "cpu" and torch.cuda.is_available() else "cpu"
    if serving.device == "cuda" and device == "cpu":
        raise RunError("No GPU can be used by torch here; set the rewriter's device to `cpu` or `auto`.")
    return TorchEngine.open(weights, form, device)
