"""One stage of training: transformers' Trainer over a mixture, checkpointed so that a killed run goes on exactly.

Order of the data, dropout and optimiser state all come back from the checkpoint: the losses after a resume are those
the run would have had. Stages, export and the run's folder are `rewriter.training.run`'s business.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rewriter.load import sha256
from rewriter.protocol import ExampleError, RecipeError, TrainingError
from rewriter.training.recipe import DataPart, Features, Recipe, Trainable, TrainingExample, family
from text.progress import progress_reporter

if TYPE_CHECKING:
    from transformers import Trainer

    from rewriter.training.recipe import Stage


@contextmanager
def out_of_memory(doing: str, remedy: str) -> Iterator[None]:
    """Turns every form in which torch reports a lack of memory into a TrainingError."""
    import torch

    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise TrainingError(f"{doing} ran out of memory. {remedy}") from error
    except RuntimeError as error:
        # The CPU allocator raises a plain RuntimeError.
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        raise TrainingError(f"{doing} ran out of memory. {remedy}") from error


Side: TypeAlias = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """A file of a run, for its card."""

    path: str
    sha256: str
    examples: int


class Mixture:
    """The data of a recipe below one folder, as the recipe's family reads it.

    Raises ExampleError or RecipeError where a file is missing or spoilt.
    """

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe = recipe
        self._root = root
        self._read: dict[tuple[str, int | None], list[Any]] = {}
        self._hashes: dict[tuple[str, int | None], TrainingSource] = {}

    def train(self, stage: int) -> list[Any]:
        """The examples of one epoch of a stage, as often as their weights say; the order is the sampler's business."""
        chosen = list[Any]()
        for n, part in enumerate(self._recipe.stage[stage].data):
            examples = [example for example in self._part(part) if self.side(example, part.hold_out) == "train"]
            rng = random.Random(f"{self._recipe.seed}:{stage}:{n}")
            whole = int(part.weight)
            chosen += examples * whole
            chosen += rng.sample(examples, round((part.weight - whole) * len(examples)))
        if not chosen:
            raise RecipeError(f"Stage {self._recipe.stage[stage].name} has nothing to train on.")
        return chosen

    def held_out(self, side: Literal["dev", "test"]) -> list[Any]:
        """Return rows that no stage trains on, at most `dev_examples`, drawn alike in every run; files under `dev` are
        dev only."""
        rows = list[Any]()
        for part in dict.fromkeys(part for stage in self._recipe.stage for part in stage.data if part.hold_out):
            rows += [example for example in self._part(part) if self.side(example, part.hold_out) == side]
        if side == "dev":
            for part in self._recipe.dev:
                rows += self._part(part)
        unique = list(dict.fromkeys(rows))
        if len(unique) > self._recipe.dev_examples:
            unique = random.Random(f"{self._recipe.seed}:{side}").sample(unique, self._recipe.dev_examples)
        return unique

    def side(self, example: TrainingExample, hold_out: float) -> Side:
        """On which side the example's conversation stands."""
        digest = hashlib.sha256(f"{self._recipe.seed}:{example.source}:{example.dialog}".encode()).digest()
        if int.from_bytes(digest[:8]) / 2**64 >= hold_out:
            return "train"
        return "test" if digest[8] % 2 else "dev"

    def sources(self) -> list[TrainingSource]:
        """Every file that was read, with its hash."""
        return list(self._hashes.values())

    def texts(self) -> Iterator[str]:
        """Every text of the training side, for a vocabulary."""
        for stage in range(len(self._recipe.stage)):
            for example in self.train(stage):
                yield example.question
                yield example.rewrite
                yield from (message.text for message in example.history)

    def _part(self, part: DataPart) -> list[Any]:
        key = (part.path, part.limit)
        if key not in self._read:
            path = self._root / part.path
            if not path.is_file():
                raise ExampleError(f"There is no file {path}; recipes take their paths from the folder of --data.")
            self._read[key] = _first(family(self._recipe.model.family).read(path), part.limit, self._recipe.seed)
            self._hashes[key] = TrainingSource(part.path, sha256(path), len(self._read[key]))
        return self._read[key]


def _first(examples: Iterable[Any], limit: int | None, seed: int) -> list[Any]:
    rows = list(examples)
    return rows if limit is None or len(rows) <= limit else random.Random(f"{seed}:limit").sample(rows, limit)


SORTED_BATCHES = 50
"""So many batches are sorted by length at a time: little padding, and still a random order."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a run computes. `threads` 0 leaves torch its own choice; `bars` draws progress bars."""

    cpu_only: bool = False
    threads: int = 0
    bars: bool = True


def on_cpu(cpu_only: bool) -> bool:
    """Whether it is trained on the CPU; Trainer takes bfloat16 there only if told to stay."""
    import torch

    return cpu_only or not torch.accelerator.is_available()


def bf16_pays(cpu_only: bool) -> bool:
    """Whether the hardware multiplies bfloat16 natively: newer GPUs, and CPUs with AMX or AVX512-BF16."""
    import torch

    if torch.cuda.is_available() and not cpu_only:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def run_stage(
    trainable: Trainable,
    stage: Stage,
    train: Features,
    dev: Features,
    *,
    folder: Path,
    logs: Path,
    seed: int,
    machine: Machine,
    callback: Callable[[str], None],
) -> list[dict[str, float]]:
    """Train the model in place through one stage, from the newest whole checkpoint in `folder` where there is one.

    Returns Trainer's log, one entry each time it logged or evaluated. With `patience` the best checkpoint's
    weights are left in the model. Raises TrainingError when memory runs out or the loss is no number.
    """
    import torch
    from transformers import EarlyStoppingCallback, PrinterCallback, TrainingArguments
    from transformers.integrations.integration_utils import TensorBoardCallback

    groups = trainable.groups(stage)
    patient = stage.patience > 0 and len(dev) > 0
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=stage.batch,
        # Who accumulates has no memory for more.
        per_device_eval_batch_size=stage.batch if stage.accumulate > 1 else max(stage.batch, 16),
        gradient_accumulation_steps=stage.accumulate,
        learning_rate=stage.learning_rate,
        lr_scheduler_type=stage.schedule,
        warmup_steps=stage.warmup,
        weight_decay=stage.weight_decay,
        label_smoothing_factor=stage.label_smoothing,
        max_steps=stage.steps or -1,
        num_train_epochs=stage.epochs or 1.0,
        logging_steps=max(1, min(20, stage.evaluate_every)),
        eval_strategy="steps" if len(dev) else "no",
        eval_steps=stage.evaluate_every,
        save_steps=stage.save_every,
        save_total_limit=2,
        load_best_model_at_end=patient,
        metric_for_best_model="eval_loss" if patient else None,
        greater_is_better=False if patient else None,
        restore_callback_states_from_checkpoint=True,
        bf16=bf16_pays(machine.cpu_only),
        use_cpu=on_cpu(machine.cpu_only),
        seed=seed,
        data_seed=seed,
        prediction_loss_only=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to=[],
        disable_tqdm=not machine.bars,
        log_level="error",
    )
    callbacks: list[Any] = [_watching(stage.name, callback)]
    if arguments.process_index == 0:
        from torch.utils.tensorboard import SummaryWriter

        callbacks.append(TensorBoardCallback(SummaryWriter(log_dir=str(logs))))  # type: ignore[no-untyped-call]
    if patient:
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=stage.patience))
    trainer = _trainer_class()(
        model=trainable.model,
        args=arguments,
        train_dataset=train,
        eval_dataset=dev if len(dev) else None,
        data_collator=trainable.collate,
        callbacks=callbacks,
        optimizers=(torch.optim.AdamW(groups) if groups else None, None),
    )
    # It prints the log as dictionaries; `callback` says the same in words.
    trainer.remove_callback(PrinterCallback)
    smaller = max(1, stage.batch // 2)
    with out_of_memory(
        f"Stage {stage.name}",
        f"Set the stage's `batch` to {smaller} and `accumulate` to {stage.accumulate * (stage.batch // smaller)}: "
        "the result is the same, and the run goes on from its last checkpoint.",
    ):
        trainer.train(resume_from_checkpoint=newest_checkpoint(folder))
    return list(trainer.state.log_history)


class LengthSampler:
    """Indices of one epoch: shuffled, then batched with others of their length, then the batches shuffled.

    The order depends on `seed` and the epoch alone, so a run that goes on finds its place again.
    """

    def __init__(self, features: Features, batch: int, seed: int) -> None:
        self._features = features
        self._batch = batch
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the data loader at the start of each epoch."""
        self._epoch = epoch
        self._features.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._features)

    def __iter__(self) -> Iterator[int]:
        rng = random.Random(f"{self._seed}:{self._epoch}")
        order = list(range(len(self._features)))
        rng.shuffle(order)
        window = self._batch * SORTED_BATCHES
        batches = list[list[int]]()
        for start in range(0, len(order), window):
            part = sorted(order[start : start + window], key=self._features.length)
            batches += [part[i : i + self._batch] for i in range(0, len(part), self._batch)]
        # A short batch in the middle would shift all that follow it.
        whole = [batch for batch in batches if len(batch) == self._batch]
        rest = [batch for batch in batches if len(batch) < self._batch]
        rng.shuffle(whole)
        for batch in whole + rest:
            yield from batch


def newest_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end; Trainer's state is the last file it writes but one."""
    paths = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in paths:
        try:
            state = json.loads((path / "trainer_state.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if state.get("global_step") and (path / "optimizer.pt").is_file() and (path / "scheduler.pt").is_file():
            _check(path)
            return str(path)
    return None


def _check(checkpoint: Path) -> None:
    """Raises TrainingError where a checkpoint that was written to its end cannot be read any more."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        torch.load(checkpoint / "optimizer.pt", map_location="cpu", weights_only=True, mmap=True)
        for weights in checkpoint.glob("*.safetensors"):
            with safe_open(weights, "pt"):
                pass
    except (OSError, EOFError, RuntimeError, UnpicklingError, SafetensorError) as error:
        raise TrainingError(f"{checkpoint} is damaged ({error}): delete it to go on from the one before.") from error


def _trainer_class() -> type[Trainer]:
    from transformers import Trainer

    class SeededTrainer(Trainer):
        """Takes the order of its data from the seed and the epoch, and batches like lengths."""

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            arguments = self.args
            batch = self._train_batch_size * max(1, arguments.world_size)
            return LengthSampler(self.train_dataset, batch, arguments.seed)  # type: ignore[arg-type]

    return SeededTrainer


def _watching(stage: str, callback: Callable[[str], None]) -> Any:
    from transformers import TrainerCallback

    report = progress_reporter()

    class Watching(TrainerCallback):
        """Tells the log in words, and ends a run whose loss is no number any more."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logs = logs or {}
            report(stage, state.global_step, state.max_steps)
            for key in ("loss", "eval_loss"):
                if key in logs and not float(logs[key]) < float("inf"):
                    raise TrainingError(
                        f"The loss is {logs[key]} at step {state.global_step}. Lower the stage's `learning_rate`."
                    )
            if "loss" in logs:
                callback(f"step {state.global_step}/{state.max_steps}: loss {float(logs['loss']):.3f}")
            elif "eval_loss" in logs:
                callback(f"step {state.global_step}/{state.max_steps}: dev loss {float(logs['eval_loss']):.3f}")

    return Watching()
