"""The conditional rewriter: first decide whether a question needs its conversation, then phrase it in full.

A sequence-to-sequence or a causal language model whose first decoded token is the gate: `<no_rewrite>` ends it,
`<rewrite>` goes on with the stand-alone question. `rewriter.conditional_training` trains it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from rewriter import guard
from rewriter.load import Serving, load_rewriter, packaged_folder, verify
from rewriter.onnx_weights import TOKENIZER, read_tokenizer
from rewriter.protocol import Conversation, Rewrite, RewriteGate, Rewriter, RunError
from text.modules import need_extra
from text.prompts import BETWEEN
from text.sanitize import escape

if TYPE_CHECKING:
    from tokenizers import Tokenizer


KEEP, REWRITE = "<no_rewrite>", "<rewrite>"
USER, ASSISTANT, QUESTION = "<user>", "<assistant>", "<question>"
SPECIAL_TOKENS = (KEEP, REWRITE, USER, ASSISTANT, QUESTION)
CLIPPED_CHARS = 12
"""Characters read per allowed token: a text of hostile length is cut before it is encoded."""
EXPORT, WEIGHTS = "export", "weights"
"""Folders of a run: what CTranslate2 serves, and what it was made from."""

Architecture: TypeAlias = Literal["seq2seq", "causal"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bounds in tokens. `source` bounds the whole input; a message longer than its bound keeps its beginning.

    `turns`, the name it has in recipes and runs, is how many messages are read, the newest kept.
    """

    source: int = 192
    target: int = 48
    question: int = 64
    user: int = 48
    assistant: int = 64
    turns: int = 6
    hint: int = 24


def hint_of(expanded: Rewrite) -> str:
    """The hint that a model reads behind the question: the words that the term rewriter found."""
    return " ".join(term.text for term in expanded.expansion)


class Form:
    """Encodes for one tokenizer; safe to call from several threads.

    Raises RunError where the tokenizer lacks one of the special tokens: it is not the one the model was trained with.
    """

    def __init__(self, tokenizer: Tokenizer, architecture: Architecture, lengths: Lengths, *, end: str) -> None:
        # Otherwise a typed "<rewrite>" would become the token of that name.
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.architecture = architecture
        self.lengths = lengths
        self.end = self._id(end)
        self.keep, self.rewrite = self._id(KEEP), self._id(REWRITE)
        self.ends = [self.end, self.keep]
        self._user, self._assistant, self._question = self._id(USER), self._id(ASSISTANT), self._id(QUESTION)

    def source(self, conversation: Conversation, question: str, hint: str = "") -> list[int]:
        """Token ids of the input, at most `lengths.source`; question and hint always fit, old messages give way."""
        lengths = self.lengths
        tail = [self._question, *self._encoded(question, lengths.question)]
        if hint:
            tail += self._encoded(BETWEEN + hint, lengths.hint)
        if self.architecture == "seq2seq":
            tail.append(self.end)
        left = lengths.source - len(tail)
        messages: list[list[int]] = []
        for message in reversed(conversation.messages[-lengths.turns :] if lengths.turns else ()):
            user = message.role == "user"
            role = self._user if user else self._assistant
            ids = [role, *self._encoded(message.text, lengths.user if user else lengths.assistant)][:left]
            if len(ids) < 2:
                break
            messages.append(ids)
            left -= len(ids)
        return [token for ids in reversed(messages) for token in ids] + tail

    def target(self, rewrite: str | None) -> list[int]:
        """Token ids of the output, the end token included; None stands for a question that is kept."""
        if rewrite is None:
            return [self.keep, self.end]
        return [self.rewrite, *self._encoded(rewrite, self.lengths.target), self.end]

    def text(self, ids: Sequence[int]) -> str:
        """The question that decoded ids spell, on one line."""
        return " ".join(str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).split())

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The names of ids, as CTranslate2 takes them."""
        return [str(self.tokenizer.id_to_token(i)) for i in ids]

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of names, as CTranslate2 gives them."""
        return [token_id for token in tokens if (token_id := self.tokenizer.token_to_id(token)) is not None]

    def _encoded(self, text: str, limit: int) -> list[int]:
        text = " ".join(escape(text[: CLIPPED_CHARS * limit]).split())
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids[:limit])

    def _id(self, token: str) -> int:
        token_id = self.tokenizer.token_to_id(token)
        if token_id is None:
            raise RunError(
                f"The tokenizer has no token {token!r}: it does not belong to this model. "
                "Restore the run folder's own tokenizer.json, or train again."
            )
        return int(token_id)


@dataclass(frozen=True, slots=True)
class Description:
    """A run as serving reads it. With `words` the term rewriter decides, and gives its words as a hint."""

    family: str
    form: Form
    gate: RewriteGate
    words: bool = False


def read_description(folder: Path, description: dict[str, Any], messages: int | None = None) -> Description:
    """The run a description tells of, its form seeing at most so many messages.

    Raises RunError, naming the field, where something is missing.
    """
    try:
        lengths, architecture = Lengths(**description["lengths"]), description["architecture"]
        family, end, gate = str(description["family"]), str(description["end"]), RewriteGate.of(description)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"The description of {folder.name} lacks or spoils {error}; train it again.") from error
    if messages is not None:
        lengths = replace(lengths, turns=min(messages, lengths.turns))
    form = Form(read_tokenizer(folder / TOKENIZER), architecture, lengths, end=end)
    return Description(family, form, gate, bool(description.get("words", False)))


Stop: TypeAlias = Callable[[], bool]
"""Asked between decoding steps; True ends the work early."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """Result of one greedy pass.

    `difference` is logit(rewrite) − logit(no_rewrite) of the first token. `phrased` are the ids after the gate,
    without the end token; None where the first token was not `<rewrite>`.
    """

    difference: float
    phrased: tuple[int, ...] | None


class ConditionalEngine(Protocol):
    """Runs a conditional model over batches of token ids; safe to call from several threads."""

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        """The gate of each source and, where it opens by itself, the greedy rewrite of at most `limit` tokens."""

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[tuple[int, ...]]:
        """The rewrite of each source, whatever its gate says; without gate and end tokens."""


class Ct2Engine:
    """A loaded export: int8 on the CPU, float16 on a GPU where CTranslate2 can use one.

    Raises RunError where the export is damaged.
    """

    def __init__(self, folder: Path, form: Form, compute: str = "") -> None:
        need_extra("standard", "A rewriter that writes", "ctranslate2", error=RunError)
        import ctranslate2

        self._form = form
        self._seq2seq = form.architecture == "seq2seq"
        kind = ctranslate2.Translator if self._seq2seq else ctranslate2.Generator
        gpu = ctranslate2.get_cuda_device_count() > 0 and not compute
        for device, precision in (*([("cuda", "float16")] if gpu else []), ("cpu", compute or "int8")):
            try:
                self._model: Any = kind(str(folder), device=device, compute_type=precision, intra_threads=1)
                break
            except (RuntimeError, ValueError) as error:
                if device == "cpu":
                    raise RunError(
                        f"{folder} is no CTranslate2 model that can be loaded here ({error}). "
                        "Export the run again with `anaphora models promote RUN --export`, or train it again."
                    ) from error
                log.warning("the GPU cannot run the rewriter; it runs on the CPU", exc_info=True)
        self._rewrite = form.tokens([form.rewrite])
        self._ends = form.tokens(form.ends)

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        form, decided = self._form, list[Decided]()
        # A causal batch reads what its prompts are longer than the shortest one token by token, with logits for each.
        shortest = min(map(len, sources), default=0)
        results = self._run(sources, [], limit + 1, stop, logits=True)
        for source, (ids, logits) in zip(sources, results, strict=True):
            first = _row(logits[0][0 if self._seq2seq else len(source) - shortest])
            phrased = tuple(ids[1:]) if ids[:1] == [form.rewrite] else None
            decided.append(Decided(float(first[form.rewrite] - first[form.keep]), phrased))
        return decided

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[tuple[int, ...]]:
        # An encoder-decoder gives the gate that it was made to begin with, too.
        gate = 1 if self._seq2seq else 0
        return [tuple(ids[gate:]) for ids, _ in self._run(sources, self._rewrite, limit + gate, stop, logits=False)]

    def _run(
        self, sources: Sequence[Sequence[int]], prefix: list[str], limit: int, stop: Stop, *, logits: bool
    ) -> Iterator[tuple[list[int], Any]]:
        tokens = [self._form.tokens(source) for source in sources]
        options: dict[str, Any] = {"end_token": self._ends, "return_logits_vocab": logits}
        options |= {"beam_size": 1, "callback": lambda step: stop()}
        if self._seq2seq:
            options |= {"max_decoding_length": limit, "min_decoding_length": 0, "max_input_length": 0}
            for result in self._model.translate_batch(tokens, [prefix] * len(tokens) if prefix else None, **options):
                yield self._form.ids(result.hypotheses[0]), result.logits
            return
        options |= {"max_length": limit, "include_prompt_in_result": False}
        for result in self._model.generate_batch([source + prefix for source in tokens], **options):
            yield list(result.sequences_ids[0]), result.logits


def _row(storage: Any) -> Any:
    """The logits of one step, `(vocabulary,)`, on the CPU in float32."""
    import ctranslate2
    import numpy as np

    if storage.device != "cpu":
        storage = storage.to_device(ctranslate2.Device.cpu)
    if storage.dtype != ctranslate2.DataType.float32:
        storage = storage.to(ctranslate2.DataType.float32)
    return np.asarray(storage).reshape(-1)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Output of the model for one source: the probability that a rewrite is needed, and its text, perhaps empty."""

    probability: float
    text: str


class ConditionalRewriter:
    """Serves one model to many threads, one request after the other.

    `timeout_seconds` bounds a turn, waiting for others included. `name` is shown in traces. `words` is a term rewriter
    that decides in the gate's place, and gives the hint.
    """

    def __init__(
        self,
        engine: ConditionalEngine,
        form: Form,
        gate: RewriteGate,
        *,
        name: str = "t5",
        timeout_seconds: float = 2.0,
        words: Rewriter | None = None,
    ) -> None:
        self.engine = engine
        self.form = form
        self.gate = gate
        self.name = name
        self._timeout = timeout_seconds
        self._words = words
        self._pool = ThreadPoolExecutor(1, "rewriter")

    def rewrite(self, conversation: Conversation, question: str) -> Rewrite:
        """Decide and phrase; never raises. `confidence` is the gate's belief in its decision."""
        if not conversation or not question.strip():
            return Rewrite(question, "keep", confidence=1.0, history_probability=0.0)
        started = time.perf_counter()
        hinted = self._words.rewrite(conversation, question) if self._words else None
        if hinted is not None and hinted.decision != "expand":
            return hinted
        stopped = threading.Event()
        try:
            source = self.form.source(conversation, question, hint_of(hinted) if hinted else "")
            work = self._pool.submit(self.propose, [source], stopped.is_set)
            try:
                [proposal] = work.result(self._timeout)
            finally:
                stopped.set()
                work.cancel()
            result = self._judged(conversation, question, proposal, hinted)
        except TimeoutError:
            result = Rewrite(question, "failed", reason=f"It took longer than {self._timeout:g} s.")
        except Exception as error:  # a turn must never fall over its rewriter
            log.exception("the rewriter failed")
            result = Rewrite(question, "failed", reason=f"The rewriter failed ({type(error).__name__}: {error}).")
        if hinted is not None and result.decision != "rewrite":
            result = replace(hinted, reason=result.reason)
        return replace(result, seconds=time.perf_counter() - started)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _judged(self, conversation: Conversation, question: str, proposal: Proposal, hinted: Rewrite | None) -> Rewrite:
        p = proposal.probability if hinted is None or hinted.history_probability is None else hinted.history_probability
        if hinted is None and p < self.gate.threshold:
            return Rewrite(question, "keep", confidence=1 - p, history_probability=p)
        reason = guard.check(conversation, question, proposal.text) if proposal.text else "The model wrote nothing."
        if reason:
            return Rewrite(question, "refused", confidence=p, reason=reason, history_probability=p)
        terms = hinted.expansion if hinted else ()
        return Rewrite(proposal.text, "rewrite", confidence=p, expansion=terms, history_probability=p)

    def propose(self, sources: Sequence[Sequence[int]], stop: Stop) -> list[Proposal]:
        """One greedy pass over all, a second one for those whose gate opens only by its threshold.

        Where the term rewriter decides, all are phrased.
        """
        limit, form = self.form.lengths.target, self.form
        if self._words is not None:
            return [Proposal(1.0, form.text(ids)) for ids in self.engine.phrase(sources, limit, stop)]
        decided = self.engine.decide(sources, limit, stop)
        p = [self.gate.probability(decision.difference) for decision in decided]
        texts = [form.text(decision.phrased or ()) for decision in decided]
        again = [i for i in range(len(sources)) if p[i] >= self.gate.threshold and not texts[i]]
        if again and not stop():
            phrased = self.engine.phrase([sources[i] for i in again], limit, stop)
            for i, ids in zip(again, phrased, strict=True):
                texts[i] = form.text(ids)
        return [Proposal(probability, text) for probability, text in zip(p, texts, strict=True)]


def load(folder: Path, description: dict[str, Any], serving: Serving) -> ConditionalRewriter:
    """The rewriter of a finished run folder. Raises RunError where its files are missing, damaged or of another run."""
    verify(folder, description)
    run = read_description(folder, description, serving.history_messages)
    gate = run.gate if serving.threshold is None else replace(run.gate, threshold=serving.threshold)
    return ConditionalRewriter(
        Ct2Engine(folder / EXPORT, run.form),
        run.form,
        gate,
        name=run.family,
        timeout_seconds=serving.timeout_seconds,
        words=open_words(serving) if run.words else None,
    )


def open_words(serving: Serving = Serving()) -> Rewriter:  # noqa: B008  (frozen)
    """The packaged term rewriter. Raises RunError where an installation has none."""
    folder = packaged_folder()
    if folder is None:
        raise RunError("This installation has no packaged rewriter whose words could be read: install it again.")
    return load_rewriter(folder, serving)
