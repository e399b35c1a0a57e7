"""Training models of every family: recipes, and runs that can be killed and resumed.

Steps specific to a family are beside it: `rewriter.terms_training`, `rewriter.conditional_training`,
`papers.cross_encoder.training`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from filelock import FileLock, Timeout

from rewriter.families import Family, Features, LengthSampler, family, out_of_memory
from rewriter.load import FORMAT, REWRITERS, RunKind, describe, sha256, write_description
from rewriter.protocol import ExampleError, RecipeError, TrainingError
from rewriter.recipe import DataPart, Recipe
from text.files import replacing
from text.modules import need_extra
from text.progress import progress_reporter, track_progress

if TYPE_CHECKING:
    from transformers import Trainer


ASSESSED = 400
"""At most so many held-out examples are rewritten one by one at the end."""
CHECKPOINTS, TRAINED, LOG, RECIPE = "checkpoints", "trained.pt", "log.json", "recipe.json"
LIBRARIES = ("accelerate", "onnx", "peft", "torch", "transformers")
"""Asked for before anything is done, so that no run ends for want of one."""

Log: TypeAlias = "list[dict[str, float]]"
"""Trainer's, one entry each time it logged or evaluated."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a run computes. `threads` 0 leaves torch its own choice; `bars` draws progress bars."""

    cpu_only: bool = False
    threads: int = 0
    bars: bool = True

    @property
    def on_cpu(self) -> bool:
        """Whether it is trained on the CPU; Trainer takes bfloat16 there only if told to stay."""
        import torch

        return self.cpu_only or not torch.accelerator.is_available()

    @property
    def bf16_pays(self) -> bool:
        """Whether the hardware multiplies bfloat16 natively: newer GPUs, and CPUs with AMX or AVX512-BF16."""
        import torch

        if torch.cuda.is_available() and not self.cpu_only:
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def train(
    recipe: Recipe, root: Path, folder: Path, *, machine: Machine = Machine(), callback: Callable[[str], None] = print
) -> Path:
    """Run `recipe` on the data below `root` in `folder`, or go on with the run that lies there; the folder.

    A finished run is left as it is. Raises MissingExtra, RecipeError, ExampleError, TrainingError.
    """
    need_extra("train", "Training", *LIBRARIES)
    if (folder / recipe.model.kind.description).is_file():
        changed = _recipe_of(folder) not in ("", recipe.model_dump_json(indent=2))
        other = (
            ", with another recipe or seed than this one: name this run otherwise to train with it" if changed else ""
        )
        callback(f"{folder.name} is finished{other}.")
        return folder
    import torch
    from transformers.utils import logging as hf_logging

    if machine.threads:
        torch.set_num_threads(machine.threads)
    # The bars of saving and loading a model say nothing at these sizes.
    hf_logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "training.lock", timeout=0), track_progress(folder):
            _run(recipe, Mixture(recipe, root), folder, machine, callback)
    except Timeout as error:
        raise TrainingError(
            f"{folder} is being trained in by another process: wait, or name this run otherwise."
        ) from error
    return folder


def export(folder: Path, callback: Callable[[str], None] = print, kind: RunKind = REWRITERS) -> None:
    """Make the export of a finished run again from its weights; what was calibrated stays as it is.

    Raises TrainingError without weights, RunError where the run is not finished.
    """
    description = describe(folder, kind)
    trained_family = family(description["family"])
    if not all((folder / path).exists() for path in trained_family.weights):
        raise TrainingError(f"{folder} has no weights to export; only a finished run that kept them has.")
    changes, served = trained_family.export(folder, description)
    write_description(folder, description | changes, served, kind)
    callback(f"{folder.name}: exported {', '.join(path.name for path in served)}.")


def _run(recipe: Recipe, mixture: Mixture, folder: Path, machine: Machine, callback: Callable[[str], None]) -> None:
    started = time.monotonic()
    _begin(recipe, mixture, folder)
    trained_family = family(recipe.model.family)
    trained_family.open(recipe, folder, callback)
    model = trained_family.model
    if not (folder / TRAINED).is_file():
        callback("preparing rows")
        examples = trained_family.features(mixture.train(), train=True)
        callback(f"{len(examples):,} examples")
        dev = trained_family.features(mixture.held_out("dev"), train=False)
        log = _train(trained_family, recipe, examples, dev, folder / CHECKPOINTS, machine, callback)
        (folder / LOG).write_text(json.dumps(log), "utf-8")
        with replacing(folder / TRAINED) as draft:
            import torch

            torch.save({name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}, draft)
    _restore(model, folder / TRAINED)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    callback("exporting")
    model.cpu().eval()
    description = {
        "family": recipe.model.family,
        "format": FORMAT,
        "recipe": recipe.name,
        "base": Path(recipe.model.base).name,
    } | trained_family.save(folder)
    changes, served = trained_family.export(folder, description)
    callback("judging what was held out")
    dev_rows, test_rows = mixture.held_out("dev"), mixture.held_out("test")[:ASSESSED]
    judged, metrics = trained_family.judge(recipe, folder, description | changes, dev_rows, test_rows)
    description |= changes | judged
    description |= {
        "parameters": sum(p.numel() for p in trained_family.model.parameters()),
        "trained": trained,
        "seconds": round(time.monotonic() - started, 1),
        "hardware": hardware(),
        "metrics": metrics,
        "created": time.time(),
    }
    write_card(
        folder, recipe, trained_family.about, mixture.sources, json.loads((folder / LOG).read_text()), description
    )
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    write_description(folder, description, served, recipe.model.kind)


def _recipe_of(folder: Path) -> str:
    """Return the recipe that the run was begun with, empty where none is noted."""
    path = folder / RECIPE
    return path.read_text("utf-8") if path.is_file() else ""


def _begin(recipe: Recipe, mixture: Mixture, folder: Path) -> None:
    """Note what a new run was asked for; raises RecipeError where another one lies in `folder`."""
    wanted = recipe.model_dump_json(indent=2)
    if _recipe_of(folder) not in ("", wanted):
        raise RecipeError(
            f"{folder.name} was begun with another recipe. Name this run otherwise, or delete the folder to start over."
        )
    data, hashes = json.dumps([asdict(source) for source in mixture.sources], indent=2), folder / "data.json"
    if hashes.is_file() and hashes.read_text("utf-8") != data:
        raise RecipeError(f"The data of {folder.name} changed since the run began. Give this run another name.")
    (folder / RECIPE).write_text(wanted, "utf-8")
    hashes.write_text(data, "utf-8")


def _restore(model: Any, path: Path) -> None:
    import torch

    try:
        trained = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, UnpicklingError) as error:
        raise TrainingError(f"{path} cannot be read ({error}). Delete it to train again.") from error
    model.load_state_dict(trained, strict=False)


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """A file of a run, for its card."""

    path: str
    sha256: str
    examples: int


class Mixture:
    """The data of a recipe below one folder, as the recipe's family reads it.

    Raises ExampleError or RecipeError where a file is missing, spoilt, or leaves nothing to train on.
    """

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self._recipe = recipe
        self._rows: dict[DataPart, list[Any]] = {}
        self.sources: list[TrainingSource] = []
        for part in recipe.stage.data:
            path = part.file(root)
            if not path.is_file():
                raise ExampleError(f"There is no file {path}; recipes take their paths from the folder of --data.")
            rows = self._rows[part] = list(family(recipe.model.family).read(path))
            self.sources.append(TrainingSource(part.path, sha256(path), len(rows)))
        if not self.train():
            raise RecipeError("There is nothing to train on.")

    def train(self) -> list[Any]:
        """The examples of one epoch, as often as their weights say; the order is the sampler's business."""
        chosen = list[Any]()
        for n, part in enumerate(self._recipe.stage.data):
            examples = [example for example in self._rows[part] if self._side(example, part.hold_out) == "train"]
            whole = int(part.weight)
            chosen += examples * whole
            rng = random.Random(f"{self._recipe.seed}:0:{n}")
            chosen += rng.sample(examples, round((part.weight - whole) * len(examples)))
        return chosen

    def held_out(self, side: Literal["dev", "test"]) -> list[Any]:
        """Return rows that are not trained on, at most `dev_examples`, drawn alike in every run."""
        rows = [
            example
            for part in dict.fromkeys(self._recipe.stage.data)
            for example in self._rows[part]
            if self._side(example, part.hold_out) == side
        ]
        unique = list(dict.fromkeys(rows))
        if len(unique) > self._recipe.dev_examples:
            unique = random.Random(f"{self._recipe.seed}:{side}").sample(unique, self._recipe.dev_examples)
        return unique

    def _side(self, example: Any, hold_out: float) -> Literal["train", "dev", "test"]:
        digest = hashlib.sha256(f"{self._recipe.seed}:{example.source}:{example.dialog}".encode()).digest()
        if int.from_bytes(digest[:8]) / 2**64 >= hold_out:
            return "train"
        return "test" if digest[8] % 2 else "dev"


def _train(
    trained_family: Family,
    recipe: Recipe,
    train: Features,
    dev: Features,
    folder: Path,
    machine: Machine,
    callback: Callable[[str], None],
) -> Log:
    """Train the model in place, from the newest whole checkpoint in `folder` where there is one.

    With `patience` the best checkpoint's weights are left in the model. Raises TrainingError when memory runs out or
    the loss is no number.
    """
    import torch
    from transformers import EarlyStoppingCallback, PrinterCallback, TrainingArguments

    stage, groups = recipe.stage, trained_family.groups()
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
        bf16=machine.bf16_pays,
        use_cpu=machine.on_cpu,
        seed=recipe.seed,
        data_seed=recipe.seed,
        prediction_loss_only=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to=[],
        disable_tqdm=not machine.bars,
        log_level="error",
    )
    callbacks: list[Any] = [_watching(callback)]
    if patient:
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=stage.patience))
    trainer = _trainer_class()(
        model=trained_family.model,
        args=arguments,
        train_dataset=train,
        eval_dataset=dev if len(dev) else None,
        data_collator=trained_family.collate,
        callbacks=callbacks,
        optimizers=(torch.optim.AdamW(groups) if groups else None, None),
    )
    # It prints the log as dictionaries; `callback` says the same in words.
    trainer.remove_callback(PrinterCallback)
    smaller = max(1, stage.batch // 2)
    with out_of_memory(
        "Training",
        f"Set the recipe's `batch` to {smaller} and `accumulate` to {stage.accumulate * (stage.batch // smaller)}: "
        "the result is the same, and the run goes on from its last checkpoint.",
    ):
        trainer.train(resume_from_checkpoint=newest_checkpoint(folder))
    return list(trainer.state.log_history)


def _trainer_class() -> type[Trainer]:
    from transformers import Trainer

    class SeededTrainer(Trainer):
        """Takes the order of its data from the seed and the epoch, and batches like lengths."""

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return LengthSampler(self.train_dataset, self._train_batch_size, self.args.seed)

    return SeededTrainer


def _watching(callback: Callable[[str], None]) -> Any:
    from transformers import TrainerCallback

    report = progress_reporter()

    class Watching(TrainerCallback):
        """Tells the log in words, and ends a run whose loss is no number any more."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            report("training", state.global_step, state.max_steps)
            for key, name in (("loss", "loss"), ("eval_loss", "dev loss")):
                if key not in (logs or {}):
                    continue
                if not float(logs[key]) < float("inf"):
                    raise TrainingError(
                        f"The loss is {logs[key]} at step {state.global_step}. Lower the recipe's `learning_rate`."
                    )
                callback(f"step {state.global_step}/{state.max_steps}: {name} {float(logs[key]):.3f}")

    return Watching()


def newest_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end; Trainer's state is the last file it writes but one.

    Raises TrainingError where it cannot be read any more.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("checkpoint-*"), key=lambda path: -int(path.name.rpartition("-")[2])):
        try:
            state = json.loads((path / "trainer_state.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if not (state.get("global_step") and (path / "optimizer.pt").is_file() and (path / "scheduler.pt").is_file()):
            continue
        try:
            torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True, mmap=True)
            for weights in path.glob("*.safetensors"):
                with safe_open(weights, "pt"):
                    pass
        except (OSError, EOFError, RuntimeError, UnpicklingError, SafetensorError) as error:
            raise TrainingError(f"{path} is damaged ({error}): delete it to go on from the one before.") from error
        return str(path)
    return None


def hardware() -> str:
    """Processor, cores and GPUs, in one line."""
    import torch

    parts = [f"{platform.machine()} CPU, {os.cpu_count()} cores, torch {torch.__version__}"]
    parts += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return "; ".join(parts)


def write_card(
    folder: Path,
    recipe: Recipe,
    about: str,
    sources: Sequence[TrainingSource],
    log: Log,
    description: Mapping[str, Any],
) -> None:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text("utf-8"))
    steps, gate = int(max((entry["step"] for entry in log), default=0)), description.get("gate")
    more = {"about": about, "sources": sources, "log": log, "steps": steps, "gate": gate}
    card = template.render(name=folder.name, recipe=recipe, description=description, **more)
    (folder / "README.md").write_text(card + "\n", "utf-8")
