"""Training the term rewriter: from a recipe and a data folder to a finished run.

A run that was stopped goes on from its last checkpoint to the same losses. The ONNX file is made by
`rewriter.terms.export`; the finished folder is what `rewriter.load` opens.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rewriter.errors import TrainingError
from rewriter.examples import RewriteExample
from rewriter.load import DESCRIPTION
from rewriter.terms.card import write_card
from rewriter.terms.data import Labelled, Split, batches, label, lengthened, read_data, shifted
from rewriter.terms.export import export
from rewriter.terms.judging import calibrated, judge
from rewriter.terms.model import Batch, TermModel, pretrained
from rewriter.terms.reading import ConversationReader
from rewriter.terms.recipe import Recipe
from rewriter.terms.restoring import WEIGHTS, restore
from text.files import replacing

CHECKPOINT = "checkpoint.pt"
LOG = "losses.jsonl"
EVERY = 100
"""Steps between checkpoints."""

Progress = Callable[[int, int, float], None]
"""Told the steps taken, all steps, and the loss of late."""


@dataclass
class _State:
    """What a checkpoint holds besides weights: everything the next step depends on."""

    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


def train(
    recipe: Recipe,
    data: Path,
    folder: Path,
    *,
    base: str = "",
    model: TermModel | None = None,
    tokenizer: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    stop_after: int | None = None,
) -> Path | None:
    """Train by `recipe` on files below `data` and leave the finished rewriter in `folder`, which is returned.

    `base` stands in for the recipe's encoder (a folder or a hub id); `model` with `tokenizer` for both. A
    checkpoint in `folder` is gone on from. With `stop_after` the run is left unfinished after so many steps
    of this call, and None is returned.

    A finished run is left as it is. Raises RecipeError, ExampleError, TrainingError, MissingExtra.
    """
    if (folder / DESCRIPTION).is_file():
        return folder
    torch.manual_seed(recipe.seed)
    if model is None:
        model, tokenizer = pretrained(base or recipe.base, recipe.frozen), tokenizer_file(base or recipe.base)
    if tokenizer is None:
        raise TrainingError("a model of one's own needs its tokenizer")
    if recipe.start:
        restore(model, recipe.start)
    reader = ConversationReader.open(tokenizer)
    split = read_data(recipe, data)
    folder.mkdir(parents=True, exist_ok=True)
    run = _Run(recipe, folder, model.to(device), split, reader, device)
    if not run.go(progress, stop_after):
        return None
    model.eval()
    held_out = [*split.held_out, *shifted(split.held_out, recipe.shifted, random.Random(recipe.seed))]
    judgement = judge(model, [label(reader, example) for example in held_out], device)
    scale, shift = calibrated(judgement)
    torch.save(model.state_dict(), folder / WEIGHTS)
    export(model.to("cpu"), tokenizer, folder, recipe, gate=(scale, shift))
    write_card(
        folder, recipe, split, judgement, gate=(scale, shift), base=base or recipe.base, seconds=run.state.seconds
    )
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return folder


def tokenizer_file(base: str) -> Path:
    """The `tokenizer.json` of a folder or of a hub id."""
    local = Path(base) / "tokenizer.json"
    if Path(base).is_dir():
        return local
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(base, "tokenizer.json"))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise TrainingError(f"cannot fetch the tokenizer of {base!r}: {error}") from error


class _Run:
    """The loop over steps, with its optimiser and its checkpoints."""

    def __init__(
        self, recipe: Recipe, folder: Path, model: TermModel, split: Split, reader: ConversationReader, device: str
    ) -> None:
        self.recipe, self.folder, self.model, self.split, self.reader = recipe, folder, model, split, reader
        self.device = device
        model.dropout.p = recipe.dropout
        self.per_epoch = math.ceil(len(self._examples(self._random(0))) / recipe.batch)
        self.steps = max(1, round(recipe.epochs * self.per_epoch))
        self.optimiser = torch.optim.AdamW(_groups(model, recipe))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, self._rate)
        self.state = _State()
        self._resume()

    def go(self, progress: Progress | None, stop_after: int | None) -> bool:
        """Take the steps that are left; whether none is left."""
        until = self.steps if stop_after is None else min(self.steps, self.state.step + stop_after)
        self.model.train()
        while self.state.step < until:
            epoch, skip = divmod(self.state.step, self.per_epoch)
            for batch in self._epoch(epoch)[skip:]:
                started = time.perf_counter()
                self.state.losses.append(self._step(batch))
                self.state.step += 1
                self.state.seconds += time.perf_counter() - started
                if progress is not None:
                    late = self.state.losses[-50:]
                    progress(self.state.step, self.steps, sum(late) / len(late))
                if self.state.step % EVERY == 0 or self.state.step >= until:
                    self._save()
                if self.state.step >= until:
                    break
        return self.state.step >= self.steps

    def _epoch(self, epoch: int) -> list[list[Labelled]]:
        """The batches of an epoch: the same ones whenever they are asked for."""
        chosen = self._random(epoch)
        return batches([label(self.reader, example) for example in self._examples(chosen)], self.recipe.batch, chosen)

    def _examples(self, chosen: random.Random) -> list[RewriteExample]:
        """What an epoch trains on; every epoch has as many."""
        examples = list(lengthened(self.split.train, self.recipe.longer_answers, chosen))
        return [*examples, *shifted(examples, self.recipe.shifted, chosen)]

    def _random(self, epoch: int) -> random.Random:
        return random.Random(self.recipe.seed * 1000 + epoch)

    def _step(self, items: Sequence[Labelled]) -> float:
        batch = Batch.of([item.reading for item in items]).to(self.device)
        words, gate = self.model.logits(batch)
        wanted = torch.tensor([w for item in items for w in item.wanted], dtype=torch.float32, device=self.device)
        needs = torch.tensor([item.needs_history for item in items], dtype=torch.float32, device=self.device)
        loss = self._loss(words, wanted, gate, needs)
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss left its range at step {self.state.step}: lower the recipe's rate")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.schedule.step()
        return float(loss.detach())

    def _loss(self, words: Tensor, wanted: Tensor, gate: Tensor, needs: Tensor) -> Tensor:
        weight = torch.tensor(self.recipe.positive, device=self.device)
        loss = self.recipe.gate * nn.functional.binary_cross_entropy_with_logits(gate, needs)
        if len(wanted):
            loss = loss + nn.functional.binary_cross_entropy_with_logits(words, wanted, pos_weight=weight)
        return loss

    def _rate(self, step: int) -> float:
        warm = max(1, int(self.recipe.warm_up * self.steps))
        return min((step + 1) / warm, max(0.0, (self.steps - step) / max(1, self.steps - warm)))

    def _save(self) -> None:
        with replacing(self.folder / CHECKPOINT) as draft:
            torch.save(
                {
                    "recipe": json.dumps(dataclasses.asdict(self.recipe), sort_keys=True),
                    "data": self.split.hashes,
                    "model": self.model.state_dict(),
                    "optimiser": self.optimiser.state_dict(),
                    "schedule": self.schedule.state_dict(),
                    "random": torch.get_rng_state(),
                    "state": dataclasses.asdict(self.state),
                },
                draft,
            )
        lines = (json.dumps({"step": n, "loss": round(loss, 5)}) for n, loss in enumerate(self.state.losses, 1))
        (self.folder / LOG).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _resume(self) -> None:
        path = self.folder / CHECKPOINT
        if not path.is_file():
            return
        try:
            saved: dict[str, Any] = torch.load(path, weights_only=True)
        except Exception as error:
            raise TrainingError(f"{path} is damaged ({error}): delete it to begin again") from error
        recipe = json.dumps(dataclasses.asdict(self.recipe), sort_keys=True)
        if saved["recipe"] != recipe or saved["data"] != self.split.hashes:
            raise TrainingError(f"{path} belongs to another recipe or other data: give another folder, or delete it")
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.schedule.load_state_dict(saved["schedule"])
        torch.set_rng_state(saved["random"])
        self.state = _State(**saved["state"])


def _groups(model: TermModel, recipe: Recipe) -> list[dict[str, Any]]:
    """Parameters with their rates: the heads begin from nothing, and norms and biases do not decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate = recipe.head_rate if name.startswith(("term.", "gate.")) else recipe.rate
        decay = recipe.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return [{"params": params, "lr": rate, "weight_decay": decay} for (rate, decay), params in groups.items()]
