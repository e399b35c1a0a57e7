"""The term rewriter as a family that can be trained: labels, the encoder with its heads in torch, export and scores.

The run itself is `rewriter.training`'s.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import regex
import torch
from torch import Tensor, nn

from rewriter.examples import RewriteExample, read_examples
from rewriter.families import Family, Features, padded
from rewriter.load import packaged_folder
from rewriter.onnx_weights import TOKENIZER, multiplied_out, put_tokenizer, write_int8
from rewriter.protocol import Message, RecipeError, RewriteGate, TrainingError, fit
from rewriter.recipe import Recipe, TermModelPart
from rewriter.terms import INPUTS, MODEL, OUTPUTS, TYPES, ConversationReader, Floats, Reading, TermScorer
from text.words import FUNCTION_WORDS, stems

WEIGHTS, CONFIG = "model.pt", "config.json"
PACKAGED = "packaged"

Bools = npt.NDArray[np.bool_]


_SENTENCE = regex.compile(r"(?<=[.!?])\s+")
_FURTHER = 4
_LEAVES = frozenset({"first", "standalone", "shift"})
_BEFORE = r"(?<![-/\w`'\"$.\[])(?<!\b(?:a|an|the|my|your|our|all|this|that|each|every)(?: \w+)? )"
_AS_SUBJECT = r"(?<=\b(?:can|could|did|does|may|might|must|should|will|would) )(?:{name})(?= \w*(?:[^\Ws]|ss)\b)"
_BY_ITSELF = r"(?:{name})(?=[,.;:!?)]*(?:$|\s+(?:" + "|".join(sorted(FUNCTION_WORDS)) + r")\b))"
"""A name with a verb or a function word behind it is no part of a longer one: "helm repo" is not Helm."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reading, which of its words are to be appended, and whether the question needs its history."""

    reading: Reading
    wanted: tuple[bool, ...]
    needs_history: bool


def term_features(
    examples: Sequence[RewriteExample], reader: ConversationReader, part: TermModelPart, seed: int, train: bool
) -> Features:
    """Labelled readings of the examples that have a history, with questions shifted to other conversations.

    Training rows are augmented anew in each epoch: answers are lengthened, and other questions are shifted and moved.
    """
    follow_ups = [example for example in examples if example.history]
    if train and not follow_ups:
        raise RecipeError("no example has a history: there is nothing to learn")

    def make(epoch: int) -> list[Labelled]:
        chosen = random.Random(f"{seed}:{epoch}")
        augmented = list(lengthened(follow_ups, part.longer_answers if train else 0.0, chosen))
        augmented += [*shifted(augmented, part.shifted, chosen), *moved(examples, part.moved, part.names, chosen)]
        return [label(reader, example) for example in augmented]

    return Features(make, lambda item: len(item.reading.ids))


def label(reader: ConversationReader, example: RewriteExample) -> Labelled:
    """An example as the model sees it: the words of the rewrite, and of what answers it, are wanted.

    A change of subject needs no history, though a person who writes it in full names the product.
    """
    reading = reader.read(example.conversation, example.question)
    if example.kind == "shift":
        return Labelled(reading, (False,) * len(reading.words), False)
    added = frozenset(stems(example.rewrite))
    if example.needs_rewrite:
        added |= frozenset(stems(" ".join(example.evidence)))
    wanted = tuple(word.stem in added for word in reading.words)
    return Labelled(reading, wanted, example.needs_rewrite)


def lengthened(examples: Sequence[RewriteExample], share: float, chosen: random.Random) -> Iterator[RewriteExample]:
    """The examples, with `share` of their answers followed by a few other sentences of the same dialog."""
    pool: dict[str, list[str]] = defaultdict(list)
    for example in examples:
        for message in example.history:
            if message.role == "assistant" and message.text not in pool[example.dialog]:
                pool[example.dialog].append(message.text)
    for example in examples:
        sentences = [sentence for text in pool[example.dialog] for sentence in _SENTENCE.split(text)]
        yield replace(example, history=tuple(_longer(message, sentences, share, chosen) for message in example.history))


def shifted(examples: Sequence[RewriteExample], share: float, chosen: random.Random) -> Iterator[RewriteExample]:
    """Questions that stand alone, put after the conversation of another dialog: nothing of it is to be appended.

    The stand-alone forms of `share` as many examples as there are. Written conversations stay with their subject;
    people leave it, and what they leave must not follow them.
    """
    dialogs = {example.dialog for example in examples}
    if len(dialogs) < 2:
        return
    for example in chosen.sample(examples, round(share * len(examples))):
        other = example
        while other.dialog == example.dialog:
            other = chosen.choice(examples)
        yield replace(example, history=other.history, question=example.rewrite)


def moved(
    examples: Sequence[RewriteExample], share: float, names: Mapping[str, str], chosen: random.Random
) -> Iterator[RewriteExample]:
    """Questions that stand alone, put after another dialog about the same source: nothing of it is to be appended.

    `share` of those that are answered, once as they are and once with *it* for the name of their source, as people ask
    who talk about one product all the time. `names` has patterns of such names.
    """
    dialogs: dict[str, list[RewriteExample]] = defaultdict(list)
    for example in examples:
        if example.history:
            dialogs[example.source].append(example)
    alone = [example for example in examples if example.kind in _LEAVES and example.evidence]
    for example in chosen.choices(alone, k=round(share * len(alone))) if alone else ():
        others = [other for other in dialogs[example.source] if other.dialog != example.dialog]
        name = names.get(example.source)
        for question in (example.rewrite, with_pronoun(example.rewrite, name) if name else None):
            if others and question:
                history = chosen.choice(others).history
                yield replace(example, history=history, question=question, rewrite=question, kind="shift")


def with_pronoun(question: str, name: str) -> str | None:
    """Return a question with *it* for the first name of its source; None where none stands for the source itself.

    >>> with_pronoun("Can helm undo it?", "helm"), with_pronoun("How do I add a helm repo?", "helm")
    ('Can it undo it?', None)
    """
    found = _BEFORE + f"(?:{_AS_SUBJECT}|{_BY_ITSELF})".replace("{name}", name)
    changed, count = regex.subn(found, "it", question, count=1, flags=regex.IGNORECASE)
    return changed if count else None


def _longer(message: Message, sentences: list[str], share: float, chosen: random.Random) -> Message:
    if message.role != "assistant" or chosen.random() >= share:
        return message
    others = [sentence for sentence in sentences if sentence not in message.text]
    more = chosen.sample(others, min(len(others), chosen.randint(1, _FURTHER)))
    return Message(message.role, " ".join([message.text, *more]))


def batch(items: Sequence[Labelled]) -> dict[str, Tensor]:
    """Labelled readings as the model's arguments, padded on the right with zeros.

    `ids`, `types`, `mask` are `(n, longest)` int64; `first`, `last` and `word_labels` are `(n, most words)`: the tokens
    `[first, last)` of every word, and whether it is wanted; where no word is, `last` is 0. `gate_labels` is `(n,)`.
    """
    words = [item.reading.words for item in items]
    return {
        "ids": padded([item.reading.ids for item in items]),
        "types": padded([item.reading.types for item in items]),
        "mask": padded([(1,) * len(item.reading.ids) for item in items]),
        "first": padded([[word.first for word in row] for row in words]),
        "last": padded([[word.last for word in row] for row in words]),
        "word_labels": padded([item.wanted for item in items]).float(),
        "gate_labels": torch.tensor([item.needs_history for item in items]).float(),
    }


class TermModel(nn.Module):
    """An encoder, a linear layer over every token ("append this word") and one over the first ("history needed")."""

    def __init__(self, encoder: Any, *, dropout: float = 0.1, positive: float = 3.0, gate_weight: float = 0.5) -> None:
        super().__init__()
        width = int(encoder.config.hidden_size)
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.term = nn.Linear(width, 1)
        self.gate = nn.Linear(width, 1)
        self.positive, self.gate_weight = positive, gate_weight

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        mask: Tensor,
        first: Tensor | None = None,
        last: Tensor | None = None,
        word_labels: Tensor | None = None,
        gate_labels: Tensor | None = None,
    ) -> Any:
        """Logits of the tokens `(n, longest)` and of the gate `(n,)`; the `loss` of a whole `batch`."""
        states = self.encoder(input_ids=ids, token_type_ids=types, attention_mask=mask, return_dict=False)[0]
        hidden = self.dropout(states)
        # Sums over a whole history need more digits than half precision has.
        tokens, gate = self.term(hidden)[..., 0].float(), self.gate(hidden[:, 0])[..., 0].float()
        if first is None or last is None or word_labels is None or gate_labels is None:
            return tokens, gate
        loss = self.gate_weight * nn.functional.binary_cross_entropy_with_logits(gate, gate_labels)
        if (words := last > 0).any():
            logits, weight = word_means(tokens, first, last)[words], torch.tensor(self.positive, device=tokens.device)
            loss = loss + nn.functional.binary_cross_entropy_with_logits(logits, word_labels[words], pos_weight=weight)
        return {"loss": loss}


def word_means(tokens: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """The mean logit of every word's tokens `(n, most words)`."""
    sums = torch.cat([torch.zeros_like(tokens[:, :1]), tokens.cumsum(1)], 1)
    return (sums.gather(1, last) - sums.gather(1, first)) / (last - first).clamp(min=1)


def pretrained(base: str, frozen: int = 0) -> Any:
    """A BERT-like encoder from a folder or of a hub id, with a type for every kind of text.

    The vectors of words stay as they are: a few thousand questions would only move the words that they hold.
    With `frozen` above 0 so do all embeddings and so many layers, which halves the cost of a step.
    Raises TrainingError.
    """
    from transformers import AutoModel
    from transformers.utils.logging import get_verbosity, set_verbosity

    verbosity = get_verbosity()
    # It reports the pooling layer that is left out, which is as it should be.
    set_verbosity(logging.ERROR)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    try:
        encoder: Any = AutoModel.from_pretrained(base, add_pooling_layer=False, **still)
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot load the encoder {base!r} to train from: {error}") from error
    finally:
        set_verbosity(verbosity)
    old = encoder.embeddings.token_type_embeddings.weight.data
    types = nn.Embedding(TYPES, old.shape[1])
    # Apart from the beginning, since frozen layers never learn to tell them apart, and by no more than words are.
    apart = 0.5 * float(encoder.embeddings.word_embeddings.weight.data.std())
    types.weight.data.copy_(old[:1].expand(TYPES, -1) + apart * types.weight.data)
    encoder.embeddings.token_type_embeddings = types
    encoder.config.type_vocab_size = TYPES
    encoder.embeddings.word_embeddings.weight.requires_grad = False
    if frozen:
        for module in (encoder.embeddings, *encoder.encoder.layer[:frozen]):
            module.requires_grad_(False)
    return encoder


def write_onnx(model: TermModel, path: Path) -> None:
    """The model as it is served."""
    write_int8(model, path, INPUTS, {name: name == "terms" for name in OUTPUTS})


def restore(model: TermModel, start: str) -> None:
    """Put the weights of a finished rewriter into `model`, which was made from the same encoder.

    `start` is its folder, or `packaged`. The vectors of words stay those of `model`: no training moves them. Raises
    TrainingError where the weights cannot be read or belong to another encoder, MissingExtra without `onnx`.
    """
    folder = packaged_folder() if start == PACKAGED else Path(start)
    if folder is None:
        raise TrainingError("this installation has no packaged rewriter to go on from: give the recipe another start")
    words = "encoder.embeddings.word_embeddings.weight"
    try:
        if (folder / WEIGHTS).is_file():
            weights: dict[str, Any] = torch.load(folder / WEIGHTS, weights_only=True, map_location="cpu")
        else:
            weights = {name: torch.tensor(value) for name, value in multiplied_out(folder / MODEL)}
        model.load_state_dict(weights | {words: model.state_dict()[words]})
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
        raise TrainingError(
            f"the weights in {folder} cannot be gone on from ({error}): "
            "is it a finished term rewriter, made from the same encoder?"
        ) from error


@dataclass(frozen=True, slots=True)
class Judgement:
    """Held-out logits with their labels: of stems `(n,)`, the best of each stem's words, and of questions `(m,)`."""

    terms: Floats
    wanted: Bools
    gate: Floats
    needed: Bools

    def gate_f1(self, gate: RewriteGate) -> float:
        """F1 of "needs its history" at the gate's threshold."""
        return _f1(gate.scale * self.gate + gate.shift >= _logit(gate.threshold), self.needed)[2]

    def gate_auc(self) -> float:
        """The chance that a question that needs its history scores above one that does not."""
        above = self.gate[self.needed][:, None] - self.gate[~self.needed]
        return float(((above > 0) + 0.5 * (above == 0)).mean()) if above.size else float("nan")


def judge(scorer: TermScorer, items: Sequence[Labelled]) -> Judgement:
    """The logits of labelled readings, as they will be served."""
    terms, wanted, gates = list[float](), list[bool](), list[float]()
    for item in items:
        scores = scorer.score(item.reading)
        gates.append(scores.gate)
        best: dict[str, tuple[float, bool]] = {}
        for word, is_wanted, value in zip(item.reading.words, item.wanted, scores.words.tolist(), strict=True):
            best[word.stem] = max(best.get(word.stem, (-1e9, False)), (value, is_wanted))
        terms += [value for value, _ in best.values()]
        wanted += [is_wanted for _, is_wanted in best.values()]
    return Judgement(
        np.array(terms, np.float64),
        np.array(wanted, np.bool_),
        np.array(gates, np.float64),
        np.array([item.needs_history for item in items], np.bool_),
    )


def _f1(predicted: Bools, right: Bools) -> tuple[float, float, float]:
    hits = float((predicted & right).sum())
    precision, recall = hits / max(1.0, float(predicted.sum())), hits / max(1.0, float(right.sum()))
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def _logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


class TermFamily(Family):
    """How term rewriters are trained, exported and judged."""

    about = (
        "It decides whether a follow-up question needs its conversation and, if so, finds the words of it that the "
        "question leaves out."
    )
    weights = (WEIGHTS, CONFIG)

    def read(self, path: Path) -> Iterable[RewriteExample]:
        return read_examples(path)

    def open(self, recipe: Recipe, folder: Path, callback: Callable[[str], None]) -> None:
        """The encoder with fresh heads, or with the weights that the recipe goes on from."""
        self._part = part = cast("TermModelPart", recipe.model)
        self._stage, self._seed = recipe.stage, recipe.seed
        put_tokenizer(part.base, folder, callback)
        self._reader = ConversationReader.open(folder / TOKENIZER)
        torch.manual_seed(recipe.seed)
        self.model = TermModel(
            pretrained(part.base, part.frozen),
            dropout=part.dropout,
            positive=part.positive,
            gate_weight=part.gate_weight,
        )
        if part.start:
            restore(self.model, part.start)

    def features(self, examples: Sequence[RewriteExample], *, train: bool) -> Features:
        return term_features(examples, self._reader, self._part, self._seed, train)

    def collate(self, items: Sequence[Labelled]) -> dict[str, Any]:
        return batch(items)

    def groups(self) -> list[dict[str, Any]]:
        """The heads begin from nothing and learn faster; norms and biases do not decay."""
        groups, stage = dict[tuple[float, float], list[Any]](), self._stage
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                head = name.startswith(("term.", "gate."))
                rate = self._part.head_learning_rate if head else stage.learning_rate
                groups.setdefault((rate, stage.weight_decay if parameter.ndim > 1 else 0.0), []).append(parameter)
        return [{"params": params, "lr": rate, "weight_decay": decay} for (rate, decay), params in groups.items()]

    def save(self, folder: Path) -> dict[str, Any]:
        """Write all weights, and the encoder's configuration."""
        torch.save(self.model.state_dict(), folder / WEIGHTS)
        self.model.encoder.config.to_json_file(folder / CONFIG)
        return {"threshold": self._part.threshold}

    def export(self, folder: Path, description: dict[str, Any]) -> tuple[dict[str, Any], list[Path]]:
        from transformers import AutoConfig, AutoModel

        encoder: Any = AutoModel
        weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
        bare = encoder.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False)
        model = TermModel(bare)
        model.load_state_dict(weights)
        write_onnx(model, folder / MODEL)
        return {}, [folder / TOKENIZER, folder / MODEL]

    def judge(
        self,
        recipe: Recipe,
        folder: Path,
        description: dict[str, Any],
        dev: Sequence[RewriteExample],
        test: Sequence[RewriteExample],
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Precision, recall and F1 of the appended stems, F1 and AUC of the gate; all on both sides together."""
        reader = ConversationReader.open(folder / TOKENIZER)
        part = cast("TermModelPart", recipe.model)
        held_out = term_features([*dev, *test], reader, part, recipe.seed, train=False)
        judged = judge(TermScorer(folder / MODEL, reader.vocabulary), held_out.items)
        gate = fit(judged.gate.tolist(), judged.needed.tolist(), part.gate_threshold)
        precision, recall, f1 = _f1(judged.terms >= _logit(part.threshold), judged.wanted)
        scores = {
            "term_precision": precision,
            "term_recall": recall,
            "term_f1": f1,
            "gate_f1": judged.gate_f1(gate),
            "gate_auc": judged.gate_auc(),
        }
        return {"gate": gate.as_dict()}, {name: round(value, 4) for name, value in scores.items()}
