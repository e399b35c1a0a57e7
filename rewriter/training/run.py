"""A whole run: data, stages, export, gate, scores, card; the same for every family. Every step leaves a file, so a run
that was killed goes on where it was.

    recipe.json, data.json     what was asked for; a run goes on only with the same
    tokenizer.json             made first
    stages/<name>/             checkpoints while it runs; final.pt and log.json when it is through
    logs/                      TensorBoard
    weights and export         written at the end, as the family has them; then curves.png, README.md and, last of
                               all, rewriter.json (of cross-encoders reranker.json)
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rewriter.load import FORMAT, REWRITERS, RunKind, describe, write_description
from rewriter.onnx_weights import TOKENIZER
from rewriter.protocol import RecipeError, TrainingError
from rewriter.training.card import hardware, write_card
from rewriter.training.recipe import Recipe, Trainable, family
from rewriter.training.stages import Machine, Mixture, run_stage
from text.files import replacing
from text.modules import need_extra
from text.progress import track_progress

FIRST_PROCESS_SECONDS = 1800.0
"""Longest wait for a file that the first of several processes writes."""
ASSESSED = 400
"""At most so many held-out examples are rewritten one by one at the end."""
FINAL = "final.pt"
LIBRARIES = ("accelerate", "matplotlib", "onnx", "peft", "sentencepiece", "tensorboard", "torch", "transformers")
"""Asked for before anything is done, so that no run ends for want of one."""


def train(
    recipe: Recipe,
    root: Path,
    folder: Path,
    *,
    machine: Machine = Machine(),  # noqa: B008  (frozen)
    callback: Callable[[str], None] = print,
) -> Path:
    """Run `recipe` on the data below `root` in `folder`, or go on with the run that lies there; the folder.

    A finished run is left as it is. Under torchrun or `accelerate launch` every process calls this and the first
    one writes. Raises MissingExtra, RecipeError, ExampleError, TrainingError.
    """
    need_extra("train", "Training", *LIBRARIES)
    if (folder / family(recipe.model.family).kind.description).is_file():
        callback(f"{folder.name} is finished.")
        return folder
    import torch
    from transformers.utils import logging as hf_logging

    if machine.threads:
        torch.set_num_threads(machine.threads)
    # The bars of saving and loading a model say nothing at these sizes.
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    first = os.environ.get("RANK", "0") == "0"
    if not first:
        callback = _silent
        _awaited(folder / TOKENIZER)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if first:
            stack.enter_context(_alone(folder))
            stack.enter_context(track_progress(folder))
        _stages(recipe, Mixture(recipe, root), folder, first, machine, callback)
    return folder


def _stages(
    recipe: Recipe, mixture: Mixture, folder: Path, first: bool, machine: Machine, callback: Callable[[str], None]
) -> None:
    clock = _Clock(folder)
    tell = clock.telling(callback)
    _begin(recipe, mixture, folder)
    trainable = family(recipe.model.family).open(recipe, mixture.texts, folder, tell)
    dev = trainable.features(mixture.held_out("dev"), train=False)
    for n, stage in enumerate(recipe.stage):
        place = folder / "stages" / stage.name
        if (place / FINAL).is_file():
            continue
        if n:
            before = folder / "stages" / recipe.stage[n - 1].name / FINAL
            _awaited(before)
            _restore(trainable.model, before)
        train = trainable.features(mixture.train(n), train=True)
        callback(f"{stage.name}: {len(train):,} examples")
        log = run_stage(
            trainable,
            stage,
            train,
            dev,
            folder=place,
            logs=folder / "logs" / stage.name,
            seed=recipe.seed + n,
            machine=machine,
            callback=tell,
        )
        if first:
            _finished_stage(place, trainable.model, log)
    if first:
        _restore(trainable.model, folder / "stages" / recipe.stage[-1].name / FINAL)
        _finish(recipe, mixture, trainable, folder, clock, callback)


def export(folder: Path, callback: Callable[[str], None] = print, kind: RunKind = REWRITERS) -> None:
    """Make the export of a finished run again from its weights; what was calibrated stays as it is.

    Raises TrainingError without weights, RunError where the run is not finished.
    """
    description = describe(folder, kind)
    changes, served = family(description["family"]).export(folder, description)
    write_description(folder, description | changes, served, kind)
    callback(f"{folder.name}: exported {', '.join(path.name for path in served)}.")


def _begin(recipe: Recipe, mixture: Mixture, folder: Path) -> None:
    """Note what a new run was asked for; raises RecipeError where another one lies in `folder`."""
    wanted, path = recipe.model_dump_json(indent=2), folder / "recipe.json"
    if path.is_file() and not _holds(json.loads(path.read_text("utf-8")), json.loads(wanted)):
        raise RecipeError(
            f"{folder.name} was begun with another recipe. Name this run otherwise, or delete the folder to start over."
        )
    for n in range(len(recipe.stage)):
        mixture.train(n)
    mixture.held_out("dev")
    data = json.dumps([asdict(source) for source in mixture.sources()], indent=2)
    hashes = folder / "data.json"
    if hashes.is_file() and hashes.read_text("utf-8") != data:
        raise RecipeError(f"The data of {folder.name} changed since the run began. Give this run another name.")
    path.write_text(wanted, "utf-8")
    hashes.write_text(data, "utf-8")


def _holds(stored: Any, wanted: Any) -> bool:
    """Whether a noted recipe says all that is wanted; an older one may have settings that are gone."""
    if not isinstance(wanted, dict):
        return bool(stored == wanted)
    return isinstance(stored, dict) and all(_holds(stored.get(key), value) for key, value in wanted.items())


def _finish(
    recipe: Recipe,
    mixture: Mixture,
    trainable: Trainable,
    folder: Path,
    clock: _Clock,
    callback: Callable[[str], None],
) -> None:
    trained_family = family(recipe.model.family)
    trained = sum(p.numel() for p in trainable.model.parameters() if p.requires_grad)
    callback("exporting")
    trainable.model.cpu().eval()
    description = {
        "family": recipe.model.family,
        "format": FORMAT,
        "recipe": recipe.name,
        "base": Path(recipe.model.base).name,
    } | trainable.save(folder)
    changes, served = trained_family.export(folder, description)
    callback("judging what was held out")
    judged, metrics = trained_family.judge(
        recipe, folder, description | changes, mixture.held_out("dev"), mixture.held_out("test")[:ASSESSED]
    )
    description |= (
        changes
        | judged
        | {
            "parameters": sum(p.numel() for p in trainable.model.parameters()),
            "trained": trained,
            "seconds": round(clock.seconds(), 1),
            "hardware": hardware(),
            "metrics": metrics,
            "created": time.time(),
        }
    )
    logs = {stage.name: _log(folder / "stages" / stage.name) for stage in recipe.stage}
    write_card(folder, recipe, trained_family.about, mixture.sources(), logs, description)
    for checkpoint in folder.glob("stages/*/checkpoint-*"):
        shutil.rmtree(checkpoint)
    write_description(folder, description, served, trained_family.kind)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder for this process; raises TrainingError where another one trains in it."""
    try:
        with FileLock(folder / "training.lock", timeout=0):
            yield
    except Timeout as error:
        raise TrainingError(
            f"{folder} is being trained in by another process: wait, or name this run otherwise."
        ) from error


def _awaited(path: Path) -> None:
    """Wait for a file that the first process writes; at once where it is there."""
    until = time.monotonic() + FIRST_PROCESS_SECONDS
    while not path.is_file():
        if time.monotonic() > until:
            raise TrainingError(f"The first process did not write {path} in {FIRST_PROCESS_SECONDS / 60:.0f} minutes.")
        time.sleep(0.5)


def _silent(_: str) -> None:
    """Says nothing: the first process tells for all."""


def _finished_stage(place: Path, model: Any, log: list[dict[str, float]]) -> None:
    import torch

    (place / "log.json").write_text(json.dumps(log), "utf-8")
    trained = {name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}
    with replacing(place / FINAL) as draft:
        torch.save(trained, draft)


def _restore(model: Any, path: Path) -> None:
    import torch

    try:
        trained = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise TrainingError(f"{path} cannot be read ({error}). Delete it to train its stage again.") from error
    unknown = model.load_state_dict(trained, strict=False).unexpected_keys
    if unknown:
        raise TrainingError(f"{path} belongs to another model ({unknown[0]}). Delete the folder to start over.")


def _log(place: Path) -> list[dict[str, float]]:
    path = place / "log.json"
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []


class _Clock:
    """Seconds a run took, over all its starts; kept in `seconds.json` as it talks."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "seconds.json"
        self._started = time.monotonic()
        self._before = float(json.loads(self._path.read_text("utf-8"))) if self._path.is_file() else 0.0

    def seconds(self) -> float:
        """Until now."""
        return self._before + time.monotonic() - self._started

    def telling(self, callback: Callable[[str], None]) -> Callable[[str], None]:
        """`callback`, with the clock written down each time."""

        def tell(text: str) -> None:
            self._path.write_text(json.dumps(round(self.seconds(), 1)), "utf-8")
            callback(text)

        return tell
